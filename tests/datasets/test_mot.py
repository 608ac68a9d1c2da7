"""Files of the MOTChallenge: read, written, and refused with the line that is wrong."""

import os
from pathlib import Path

import numpy as np
import pytest

from permatch.datasets import Boxes, read_mot, write_mot
from permatch.errors import BoxError

TRUTH = """\
1,1,399,182,121,229,1,-1,-1,-1
1,2,282,201,92,184,1,-1,-1,-1
3,1,9,1,2,3,1,-1,-1,-1
"""
AGAIN = "1,7,2,3,4,5,1\n2,7,2,3,4,5,1\n2,7,0,0,1,1,1\n"
FOLDER = Path(os.environ.get("PERMATCH_DATA", "../shared/data")) / "tud_campus"


@pytest.fixture
def file(tmp_path):
    def write(text, name="gt.txt"):
        path = tmp_path / name
        path.write_bytes(text.encode() if isinstance(text, str) else text)
        return path

    return write


def test_ground_truth(file):
    boxes = read_mot(file(TRUTH))
    assert boxes.frame.tolist() == [1, 1, 3]
    assert boxes.id.tolist() == [1, 2, 1]
    assert boxes.box[1].tolist() == [282.0, 201.0, 92.0, 184.0]
    assert boxes.confidence.tolist() == [1.0] * 3
    assert boxes.extra.tolist() == [[-1.0] * 3] * 3
    assert boxes.frames().tolist() == [1, 3]
    assert len(boxes.at(1)) == 2
    assert len(boxes.at(2)) == len(boxes.at(99)) == 0
    assert repr(boxes) == "Boxes(3 boxes, 2 frames, 2 objects)"


@pytest.mark.parametrize(
    "text",
    [
        "1 1 2.5 3 4 5 0.5\n\n2 1 2 3 4 5 0.75\n",
        "1\t1\t2.5\t3\t4\t5\t0.5\r\n2\t1\t2\t3\t4\t5\t0.75\r\n\r\n",
        "\ufeff1, 1, 2.5, 3, 4, 5, .5,\n2.0, 1.0, 2, 3, 4, 5, 7.5e-1",
    ],
    ids=["blanks", "tabs", "commas"],
)
def test_separators(file, text):
    boxes = read_mot(file(text))
    assert boxes.frame.tolist() == [1, 2]
    assert boxes.box.tolist() == [[2.5, 3, 4, 5], [2, 3, 4, 5]]
    assert boxes.confidence.tolist() == [0.5, 0.75]
    assert boxes.extra.shape == (2, 0)


def test_detections_share_the_id_of_nobody(file):
    boxes = read_mot(file("1,-1,0,0,5,9,31.2\n1,-1,7,0,5,9,12.5\n"))
    assert boxes.id.tolist() == [-1, -1]
    assert repr(boxes) == "Boxes(2 boxes, 1 frame, 0 objects)"


def test_six_columns_are_enough(file):
    assert read_mot(file("1,3,0,0,5,9\n")).confidence.tolist() == [1.0]


@pytest.mark.parametrize("n_extra", [0, 1, 2, 3])
def test_round_trip(tmp_path, rng, n_extra):
    n = 40
    box = rng.normal(100.0, 1000.0, (n, 4))
    box[:, 2:] = np.exp(rng.normal(0.0, 9.0, (n, 2)))
    ids = np.where(rng.random(n) < 0.5, -1, np.arange(n))
    before = Boxes(
        rng.integers(1, 9, n), ids, box, rng.normal(size=n), rng.normal(size=(n, n_extra))
    )
    write_mot(tmp_path / "a.txt", before)
    after = read_mot(tmp_path / "a.txt")
    assert np.array_equal(after.table, before.table)
    write_mot(tmp_path / "b.txt", after)
    assert (tmp_path / "b.txt").read_bytes() == (tmp_path / "a.txt").read_bytes()


def test_the_order_of_the_file_is_kept_within_frames(file):
    boxes = read_mot(file("2,5,0,0,1,1,1\n1,9,0,0,2,1,1\n2,3,0,0,3,1,1\n1,4,0,0,4,1,1\n"))
    assert boxes.at(2).id.tolist() == [5, 3]
    assert boxes.at(1).id.tolist() == [9, 4]
    assert boxes[boxes.id > 4].id.tolist() == [5, 9]
    assert boxes[1].id.tolist() == [9]
    assert boxes.with_id(None).id.tolist() == [-1] * 4


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", r"gt.txt must have a box per line \(frame, id.*it is empty"),
        ("\n \n", "it is empty"),
        ("1,1,2,3,4\n", "line 1: a box must have 6 to 10 fields.*got 5. Complete the line"),
        ("1,1,2,3,4,5,6,7,8,9,10\n", "line 1.*got 11. Shorten the line, or remove it"),
        (TRUTH + "\n4,1,9,1,2,3,1\n", "line 5: all lines must.*has 7 and line 1"),
        (TRUTH[:-4], "line 3: all lines must have.*this one has 9.*cut off"),
        ("1,1,2,3,4,5,1\n2,1,nan,3,4,5,1\n", "line 2: left must be a finite.*nan"),
        ("1,1,2,inf,4,5,1\n", "line 1: top must be a finite number; got inf"),
        ("1,1,2,3,4,5,1,-1,nan\n", "line 1: field 9 must be a finite number"),
        ("1,1,2,3,4,5,high\n", "line 1: confidence must be a number; got 'high'"),
        ("frame,id,left,top,width,height\n", "line 1: frame must be a number; got 'frame'"),
        ("1,1,2,3,,5,1\n", "line 1: width must be a number; got ''"),
        ("\n1,1,2,3,-4,5,1\n", "line 2: width must be above 0; got -4"),
        ("1,1,2,3,4,0,1\n", "line 1: height must be above 0; got 0"),
        ("0,1,2,3,4,5,1\n", "line 1: frame must be at least 1: frames count from 1; got 0"),
        ("1.5,1,2,3,4,5,1\n", "line 1: frame must be a whole number; got 1.5"),
        ("1,1e40,2,3,4,5,1\n", "line 1: id must be below"),
        ("1,-2,2,3,4,5,1\n", "line 1: id must be at least 0, or -1"),
        (AGAIN, "line 3: frame 2 must show object 7 once; .*line 2 does"),
        (b"1,1,2,3,4,5,1\n\xff\xfe", "must be UTF-8 text"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_named_with_its_line(file, text, says):
    with pytest.raises(BoxError, match=says):
        read_mot(file(text))


def test_limits(file):
    with pytest.raises(BoxError, match="max_bytes"):
        read_mot(file(TRUTH), max_bytes=20)


def test_boxes_are_checked_when_made():
    with pytest.raises(BoxError, match=r"box 1: height must be above 0; got -1"):
        Boxes([1, 2], None, [[0, 0, 1, 1], [0, 0, 1, -1]])
    with pytest.raises(BoxError, match=r"box 1: frame 1 must show object 3 once; box 0"):
        Boxes([1, 1], [3, 3], np.ones((2, 4)))
    with pytest.raises(BoxError, match=r"box \(n, 4\).*got \(2,\), \(2,\), \(4,\)"):
        Boxes([1, 1], [3, 4], np.ones(4))
    with pytest.raises(BoxError, match=r"k at most 3"):
        Boxes([1], None, np.ones((1, 4)), extra=np.ones((1, 4)))
    with pytest.raises(BoxError, match="frame must be numbers"):
        Boxes(["first"], None, np.ones((1, 4)))
    with pytest.raises(BoxError, match="masked"):
        Boxes(np.ma.masked_array([1], [True]), None, np.ones((1, 4)))
    with pytest.raises(ValueError, match="read-only"):
        Boxes([1], None, np.ones((1, 4))).box[0, 0] = 2.0


def test_no_boxes_at_all(tmp_path):
    none = Boxes([], [], [])
    assert len(none) == len(none.frames()) == len(none.at(1)) == 0
    write_mot(tmp_path / "none.txt", none)
    assert (tmp_path / "none.txt").read_text() == ""


def test_only_boxes_are_written(tmp_path):
    with pytest.raises(BoxError, match=r"must be permatch.datasets.Boxes; got list"):
        write_mot(tmp_path / "a.txt", [[1, 2, 3, 4, 5, 6]])
    assert list(tmp_path.iterdir()) == []


def test_a_failed_write_leaves_the_old_file(tmp_path):
    path = tmp_path / "tracks.txt"
    path.write_text(TRUTH)
    with pytest.raises(BoxError):
        write_mot(path, None)
    assert path.read_text() == TRUTH


@pytest.mark.data
@pytest.mark.skipif(not FOLDER.is_dir(), reason="TUD-Campus is not in PERMATCH_DATA")
def test_tud_campus():
    truth, found = read_mot(FOLDER / "gt.txt"), read_mot(FOLDER / "test.txt")
    assert repr(truth) == "Boxes(359 boxes, 71 frames, 8 objects)"
    assert repr(found) == "Boxes(222 boxes, 71 frames, 13 objects)"
