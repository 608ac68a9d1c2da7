"""LETOR files: what is read, what is refused, and where the files of a fold are found."""

import gzip
import os
import pickle
import tracemalloc
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.datasets import dump_svmlight_file, load_svmlight_file

from permatch import _files
from permatch.datasets import (
    iterate_letor,
    load_letor,
    read_letor,
    read_scores,
)
from permatch.datasets.letor_line import parse_line
from permatch.datasets.sources import Copy
from permatch.errors import FeatureIndexError, InvalidOptionError, LetorFileError

OHSUMED = """\
0 qid:85 1:2.00000000 2:1.38629436 3:-4.69140000 #docid = 7612\r
2 qid:85 1:0.00000000 2:0.00000000 3:31.50166952 #docid = 15032\r
1 qid:7 1:1.00000000 2:0.5 3:1e-3 #docid = 40626\r
"""
MQ2008 = """\
0 qid:10002 1:0.007477 2:0.000000 #docid = GX008-86-4444840 inc = 1 prob = 0.086622
1 qid:10002 1:0.603738 2:1.000000 #docid = GX037-06-11625428 inc = 0.0031586 prob = 0.0897
"""
MSLR = "2 qid:1 1:3 2:3 3:0 4:-7.5 \n0 qid:1 1:3 2:0 3:3 4:0 \n"


def write(folder, text, name="train.txt"):
    path = Path(folder, name)
    path.parent.mkdir(parents=True, exist_ok=True)
    data = text.encode() if isinstance(text, str) else text
    path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)
    return path


def test_ohsumed(tmp_path):
    data = read_letor(write(tmp_path, OHSUMED))
    np.testing.assert_array_equal(
        data.X, [[2.0, 1.38629436, -4.6914], [0.0, 0.0, 31.50166952], [1.0, 0.5, 1e-3]]
    )
    assert data.X.dtype == np.float64
    assert data.y.dtype == np.int64
    assert data.y.tolist() == [0, 2, 1]
    assert data.qid.tolist() == [85, 85, 7]
    assert data.doc_ids.tolist() == ["7612", "15032", "40626"]
    assert data.path == tmp_path / "train.txt"
    assert (data.n_documents, data.n_queries, data.n_features) == (3, 2, 3)
    assert repr(data).startswith("RankingData(n_documents=3, n_queries=2, n_features=3")


def test_mq2008_and_mslr(tmp_path):
    data = read_letor(write(tmp_path, MQ2008))
    assert data.doc_ids.tolist() == ["GX008-86-4444840", "GX037-06-11625428"]
    data = read_letor(write(tmp_path, MSLR))
    assert data.doc_ids is None
    assert data.X.tolist() == [[3.0, 3.0, 0.0, -7.5], [3.0, 0.0, 3.0, 0.0]]


@pytest.mark.parametrize(
    ("comment", "document"),
    [
        ("#docid = 12", "12"),
        ("# docid=12 inc=1", "12"),
        ("#docid=12", "12"),
        ("# DOCID =\t12 ", "12"),
        ("# score 3 docid = 12", "12"),
        ("# document 12", ""),
        ("#", ""),
        ("# docid", ""),
        ("#docid =", ""),
    ],
)
@pytest.mark.parametrize("features", ["1:1 2:2", "2:2 1:1"], ids=["plain", "any order"])
def test_documents_named_in_comments(tmp_path, comment, document, features):
    text = f"1 qid:1 {features} {comment}\n0 qid:1 1:0 2:0 #docid = last\n"
    assert read_letor(write(tmp_path, text)).doc_ids.tolist() == [document, "last"]


def test_sparse_lines_in_any_order(tmp_path):
    text = "1 qid:1 5:5 2:2\n0 qid:1\n3 qid:2\t7:7  1:1\t\n"
    data = read_letor(write(tmp_path, text))
    expected = np.zeros((3, 7))
    expected[0, [1, 4]] = 2, 5
    expected[2, [0, 6]] = 1, 7
    np.testing.assert_array_equal(data.X, expected)
    assert read_letor(write(tmp_path, text), n_features=9).X.shape == (3, 9)


@pytest.mark.parametrize(
    "text",
    [
        "\ufeff1 qid:1 1:2\n",
        "# a header\n\n  \n1 qid:1 1:2\n\n",
        "1 qid:1 1:2",
        "1 qid:1 1:2\r\n\r\n",
        "1.0 qid:1 1:2\n",
        "+1 QID:1 1:+2.\n",
        "1 qid:1 1:2#docid\n",
        "1 qid:1 01:2e0\n",
    ],
    ids=range(8),
)
def test_ways_to_write_the_same(tmp_path, text):
    data = read_letor(write(tmp_path, text))
    assert (data.X.tolist(), data.y.tolist(), data.qid.tolist()) == ([[2.0]], [1], [1])


def test_query_ids_are_text_where_numbers_would_lose_something(tmp_path):
    for ids in (["01", "1"], ["a", "2"], ["1", "99999999999999999999"], ["é", "e"]):
        text = "".join(f"0 qid:{name} 1:1\n" for name in ids)
        assert read_letor(write(tmp_path, text)).qid.tolist() == ids
    text = "0 qid:-3 1:1\n0 qid:12 1:1\n"
    assert read_letor(write(tmp_path, text)).qid.tolist() == [-3, 12]


NUMBERS = [
    "0", "-0", "1", "0.1", "1e22", "1e23", "9007199254740993", "123456789012345678901",
    "0.30000000000000004", "2.2250738585072014e-308", "5e-324", "1.7976931348623157e308",
    "1e-400", ".5", "5.", "-1.5E+3", "00012.50", "0.000000000000000000000000000123",
    "8.41e-16", "179769313486231570000", "4.35", "0.000001", "1e-22",
    "9007199254740992e-22",
]  # fmt: skip


@pytest.mark.parametrize("number", NUMBERS)
def test_numbers_are_read_to_the_last_bit(tmp_path, number):
    value = read_letor(write(tmp_path, f"0 qid:1 1:{number}\n")).X[0, 0]
    assert value == float(number)
    assert np.signbit(value) == np.signbit(float(number))


@given(st.lists(st.floats(-1e300, 1e300), min_size=1, max_size=8))
def test_any_float_is_read_as_it_was_written(tmp_path_factory, values):
    folder = tmp_path_factory.mktemp("floats")
    for form in (repr, "{:.16g}".format, "{:.17e}".format, "{:.8f}".format):
        words = " ".join(f"{k}:{form(value)}" for k, value in enumerate(values, 1))
        found = read_letor(write(folder, f"0 qid:1 {words}\n")).X[0]
        assert found.tolist() == [float(form(value)) for value in values]


def test_the_reader_of_scikit_learn_agrees(tmp_path, rng):
    X = rng.normal(size=(50, 6)) * (rng.random((50, 6)) < 0.5)
    X[0, 5] = 1.0
    y, qid = rng.integers(0, 5, 50), np.repeat(np.arange(10), 5)
    path = tmp_path / "train.txt"
    dump_svmlight_file(X, y, str(path), zero_based=False, query_id=qid, comment="theirs")
    data = read_letor(path)
    theirs, _, _ = load_svmlight_file(str(path), query_id=True)
    np.testing.assert_array_equal(data.X, theirs.toarray())
    np.testing.assert_allclose(data.X, X, rtol=1e-15)  # sixteen digits are written
    np.testing.assert_array_equal(data.y, y)
    np.testing.assert_array_equal(data.qid, qid)


BAD_LINES = {
    "no query": ("1 1:0.5", "name its query right after the grade.*got the word '1:0.5'"),
    "no query at all": ("1", "got the end of the line.*Add 'qid:'"),
    "empty query": ("1 qid: 1:0.5", "got the word 'qid:'"),
    "header": ("grade query f1", "begin with its grade.*got 'grade'.*header"),
    "negative grade": ("-1 qid:1 1:0.5", "whole number from 0 to 31; got -1.*Map"),
    "fractional grade": ("0.5 qid:1 1:0.5", "got 0.5"),
    "high grade": ("32 qid:1 1:0.5", "got 32"),
    "infinite grade": ("1e999 qid:1 1:0.5", "got 1e999"),
    "nan": ("1 qid:1 1:nan", "finite number; feature 1 is 'nan'.*Fill in"),
    "null": ("1 qid:1 1:0 2:NULL", "feature 2 is 'NULL'.*QueryLevelNorm"),
    "inf": ("1 qid:1 3:-inf", "feature 3 is '-inf'"),
    "overflow": ("1 qid:1 1:1e309", "feature 1 is '1e309'"),
    "underscores": ("1 qid:1 1:1_000", "feature 1 is '1_000'"),
    "text": ("1 qid:1 1:high", "feature 1 is 'high'"),
    "no value": ("1 qid:1 1:", "feature 1 is ''.*cut off"),
    "no index": ("1 qid:1 0.5", "index:value, such as 3:0.25; got '0.5'"),
    "negative index": ("1 qid:1 -1:0.5", "got '-1:0.5'"),
    "zero index": ("1 qid:1 0:0.5", "indices must be from 1.*got 0"),
    "large index": ("1 qid:1 99999999999:0.5", "got 99999999999"),
    "index beyond": ("1 qid:1 1048577:0.5", "to 1048576; got 1048577"),
    "twice": ("1 qid:1 1:0.5 2:0 1:0.7", "feature 1 is given twice"),
    "twice in a row": ("1 qid:1 1:0.5 1:0.5", "feature 1 is given twice"),
    "colons": ("1 qid:1 1:0.5:2", "feature 1 is '0.5:2'"),
    "bytes": (b"\xff\xfe1 qid:1 1:2", "text, plain or gzip; got the bytes"),
}


@pytest.mark.parametrize("name", BAD_LINES)
@pytest.mark.parametrize("n_before", [0, 3], ids=["first", "fourth"])
def test_malformed_lines_are_refused_with_their_number(tmp_path, name, n_before):
    line, message = BAD_LINES[name]
    line = line.encode() if isinstance(line, str) else line
    text = b"1 qid:1 1:0.25 # fine\n" * n_before + line + b"\n0 qid:1 1:0\n"
    path = write(tmp_path, text)
    with pytest.raises(
        LetorFileError, match=rf"train.txt, line {n_before + 1}: .*{message}"
    ):
        read_letor(path)


def test_a_query_that_comes_back(tmp_path):
    text = "# judged\n0 qid:1 1:1\n0 qid:2 1:1\n0 qid:3 1:1\n1 qid:1 1:1\n"
    expected = "line 5: .*query 1 reappears here, after 3, and began in line 2. Sort"
    with pytest.raises(LetorFileError, match=expected):
        list(iterate_letor(write(tmp_path, text)))
    assert read_letor(write(tmp_path, text)).qid.tolist() == [1, 2, 3, 1]


@pytest.mark.parametrize("text", ["", "\n\n", "# nothing but a comment\n"], ids=range(3))
def test_files_without_a_line(tmp_path, text):
    with pytest.raises(LetorFileError, match="at least one line.*it is empty"):
        read_letor(write(tmp_path, text))
    with pytest.raises(LetorFileError, match="at least one line.*it is empty"):
        list(iterate_letor(write(tmp_path, text)))


def test_documents_without_features(tmp_path):
    path = write(tmp_path, "0 qid:1\n1 qid:1 # nothing\n")
    with pytest.raises(LetorFileError, match="at least one feature"):
        read_letor(path)
    assert read_letor(path, n_features=2).X.tolist() == [[0.0, 0.0], [0.0, 0.0]]


def test_more_features_than_asked_for(tmp_path):
    path = write(tmp_path, "0 qid:1 1:1\n0 qid:1 1:1 4:2\n")
    with pytest.raises(LetorFileError, match="line 2: .*at most 3 features; got index 4"):
        read_letor(path, n_features=3)
    assert read_letor(path, n_features=4).n_features == 4


def test_float32(tmp_path):
    data = read_letor(write(tmp_path, OHSUMED), dtype=np.float32)
    assert data.X.dtype == np.float32
    whole = read_letor(write(tmp_path, OHSUMED))
    np.testing.assert_array_equal(data.X, whole.X.astype(np.float32))
    path = write(tmp_path, "0 qid:1 1:1\n0 qid:1 1:-1e39\n")
    with pytest.raises(LetorFileError, match="line 2: .*float32; got -1e.39.*float64"):
        read_letor(path, dtype="float32")
    with pytest.raises(InvalidOptionError, match="float64 or float32; got 'int'"):
        read_letor(path, dtype="int")


def test_gzip_by_its_content(tmp_path):
    path = write(tmp_path, OHSUMED, "train.txt.gz")
    expected = read_letor(write(tmp_path, OHSUMED))
    np.testing.assert_array_equal(read_letor(path).X, expected.X)
    renamed = path.rename(tmp_path / "renamed.txt")
    np.testing.assert_array_equal(read_letor(renamed).X, expected.X)
    renamed.write_bytes(renamed.read_bytes()[:-12])
    with pytest.raises(LetorFileError, match="complete; this one is truncated or damaged"):
        read_letor(renamed)


def made(rng, n_queries, n_features=4, longest=9):
    """Text of queries of 1 to `longest` documents, some lines of an unusual form."""
    lines = []
    for query in range(n_queries):
        for _ in range(rng.integers(1, longest + 1)):
            words = [f"{k}:{rng.normal()!r}" for k in range(1, n_features + 1)]
            if rng.random() < 0.1:
                words.reverse()
            number = len(lines)
            lines.append(
                f"{rng.integers(3)} qid:q{query} {' '.join(words)} #docid = {number}"
            )
    return "\n".join(lines) + "\n"


@pytest.mark.parametrize("piece", [64, 1000, 1 << 22])
@pytest.mark.parametrize("n_documents", [1, 5, 20, 1000])
def test_blocks_of_whole_queries(tmp_path, rng, monkeypatch, piece, n_documents):
    path = write(tmp_path, made(rng, 30))
    whole = read_letor(path)
    monkeypatch.setattr(_files, "PIECE", piece)
    again = read_letor(path)
    blocks = list(iterate_letor(path, n_documents))
    for name in ("X", "y", "qid", "doc_ids"):
        expected = getattr(whole, name)
        np.testing.assert_array_equal(getattr(again, name), expected)
        joined = np.concatenate([getattr(block, name) for block in blocks])
        np.testing.assert_array_equal(joined, expected)
    for block in blocks:
        assert block.n_documents <= n_documents or block.n_queries == 1
    queries = [set(block.qid) for block in blocks]
    assert sum(map(len, queries)) == len(set.union(*queries))
    # as few as can be: no two neighbours would have fitted into one
    sizes = [block.n_documents for block in blocks]
    first = [int((block.qid == block.qid[0]).sum()) for block in blocks]
    assert all(a + b > n_documents for a, b in zip(sizes, first[1:], strict=False))


def test_errors_in_later_pieces_have_the_right_line(tmp_path, rng, monkeypatch):
    text = made(rng, 30)
    n_lines = text.count("\n")
    monkeypatch.setattr(_files, "PIECE", 200)
    for line in ("1 qid:new 1:x", "1 qid:q0 1:1", "1 qid:new 9:1"):
        path = write(tmp_path, text + line + "\n")
        with pytest.raises(LetorFileError, match=rf"line {n_lines + 1}: "):
            list(iterate_letor(path, 5))


def test_blocks_have_the_features_of_the_model(tmp_path):
    path = write(tmp_path, "0 qid:1 1:1\n0 qid:2 1:1\n")
    blocks = list(iterate_letor(path, 1, n_features=3))
    assert [block.X.shape for block in blocks] == [(1, 3), (1, 3)]
    with pytest.raises(InvalidOptionError, match="n_documents"):
        list(iterate_letor(path, 0))
    with pytest.raises(InvalidOptionError, match="n_features"):
        read_letor(path, n_features=0)


def test_blocks_take_bounded_memory(tmp_path, monkeypatch):
    monkeypatch.setattr(_files, "PIECE", 1 << 16)
    line = " ".join(f"{k}:0.{k}" for k in range(1, 51))
    text = "".join(f"0 qid:{n // 10} {line}\n" for n in range(20_000))
    path = write(tmp_path, text)
    next(iterate_letor(path, 1000))  # compiles
    tracemalloc.start()
    n_documents = sum(block.n_documents for block in iterate_letor(path, 1000))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert n_documents == 20_000
    assert peak < 4_000_000  # the features alone are 8 MB


def test_the_two_parsers_agree(tmp_path, rng):
    text = made(rng, 10)
    data = read_letor(write(tmp_path, text))
    for row, line in enumerate(text.encode().splitlines()):
        parsed = parse_line(line, "here")
        assert (parsed.grade, parsed.query) == (data.y[row], data.qid[row])
        assert parsed.values == data.X[row].tolist()


def test_scores(tmp_path):
    path = write(tmp_path, "1.29351\r\n-2\n  3e-5 \n\n", "scores.txt")
    assert read_scores(path).tolist() == [1.29351, -2.0, 3e-5]
    assert read_scores(write(tmp_path, "1\n2", "scores.gz")).tolist() == [1.0, 2.0]
    for text in ("1\n\n2\n", "1\nx\n2", "1\nnan\n", "1\n2 3\n"):
        with pytest.raises(LetorFileError, match="scores.txt, line 2: .*one finite number"):
            read_scores(write(tmp_path, text, "scores.txt"))
    with pytest.raises(LetorFileError, match="line 1"):
        read_scores(write(tmp_path, "", "scores.txt"))


# Names as they really are.
LAYOUTS = {
    "LETOR 2.0": "Fold{}/trainingset.txt Fold{}/validationset.txt Fold{}/testset.txt",
    "upper case": "Fold{}/trainingset.TXT Fold{}/ValidationSet.txt Fold{}/TESTSET.TXT",
    "LETOR 3.0": "QueryLevelNorm/Fold{}/trainingset.txt QueryLevelNorm/Fold{}/vali.txt "
    "QueryLevelNorm/Fold{}/test.txt",
    "LETOR 4.0": "Fold{}/train.txt Fold{}/vali.txt Fold{}/test.txt",
    "gzip": "Fold{}/train.txt.gz Fold{}/vali.txt.gz Fold{}/test.txt.gz",
    "deep": "Data/All/fold_{}/train Data/All/fold_{}/valid.dat Data/All/fold_{}/test.gz",
    "folders": "Fold{}/trainingset/a.txt Fold{}/validationset/b.txt Fold{}/testset/c.txt",
}


def lay_out(root, layout, n_folds=5, text=MSLR):
    for number in range(1, n_folds + 1):
        for part, name in enumerate(LAYOUTS[layout].split()):
            changed = text.replace("2 qid:1", f"{part} qid:1")
            write(root, changed, name.format(number))
    return root


@pytest.mark.parametrize("layout", LAYOUTS)
def test_layouts(tmp_path, layout):
    data = load_letor(lay_out(tmp_path / "TD2004", layout))
    assert data.name == "TD2004"
    assert [fold.number for fold in data.folds] == [1, 2, 3, 4, 5]
    for fold in data.folds:
        parts = (fold.train, fold.validation, fold.test)
        assert [part.y[0] for part in parts] == [0, 1, 2]
        assert {part.n_features for part in parts} == {4}
    assert repr(data) == "LetorData(name='TD2004', folds=[1, 2, 3, 4, 5], n_features=4)"


def test_some_folds_only(tmp_path):
    root = lay_out(tmp_path / "MSLR-WEB10K", "LETOR 4.0")
    write(root, "Fold9/readme.txt", "readme.txt")
    assert [fold.number for fold in load_letor(root, folds=[4, 2]).folds] == [4, 2]
    assert load_letor(root, folds=[1], dtype="float32").folds[0].test.X.dtype == np.float32
    one = load_letor(root / "Fold3")
    assert (one.name, one.folds[0].number) == ("MSLR-WEB10K", 3)
    with pytest.raises(LetorFileError, match="Fold7 is required.*Fold1, Fold2.*Choose"):
        load_letor(root, folds=[7])
    with pytest.raises(InvalidOptionError, match="at least one fold"):
        load_letor(root, folds=[])


def test_parts_that_mention_fewer_features_are_filled_up(tmp_path):
    write(tmp_path, "0 qid:1 1:1 3:1\n", "train.txt")
    write(tmp_path, "0 qid:1 1:1\n", "vali.txt")
    write(tmp_path, "0 qid:1 2:1\n", "test.txt")
    (fold,) = load_letor(tmp_path).folds
    assert fold.number == 1
    assert fold.validation.X.tolist() == [[1.0, 0.0, 0.0]]
    assert fold.test.X.tolist() == [[0.0, 1.0, 0.0]]


def test_folders_that_are_not_what_they_should_be(tmp_path):
    with pytest.raises(LetorFileError, match="a folder.*there is nothing"):
        load_letor(tmp_path / "missing")
    with pytest.raises(LetorFileError, match="there is a file.*read_letor"):
        load_letor(write(tmp_path, MSLR, "all.txt"))
    with pytest.raises(LetorFileError, match="a folder Fold1.*found all.txt. Give"):
        load_letor(tmp_path)
    root = lay_out(tmp_path / "a", "LETOR 4.0")
    (root / "Fold2" / "vali.txt").unlink()
    write(root, MSLR, "Fold2/other.txt")
    expected = (
        "Fold2: one file for the validation part.*found other.txt, test.txt, train.txt"
    )
    with pytest.raises(LetorFileError, match=expected):
        load_letor(root)
    write(root, MSLR, "Fold2/vali.txt")
    write(root, MSLR, "Fold2/vali.txt.gz")
    with pytest.raises(LetorFileError, match="found both vali.txt and vali.txt.gz. Keep"):
        load_letor(root)
    for path in (root / "Fold2").iterdir():
        path.unlink()
    (root / "Fold2").rmdir()
    expected = r"Fold2 is required and missing; found Fold1, Fold3.*folds=\[1, 3, 4, 5\]"
    with pytest.raises(LetorFileError, match=expected):
        load_letor(root)
    write(root, MSLR, "fold-3/train.txt")
    with pytest.raises(LetorFileError, match="one folder per fold.*Fold3 and fold-3"):
        load_letor(root)


def test_two_sets_of_folds(tmp_path):
    for name in ("2003_td_dataset", "2004_td_dataset"):
        lay_out(tmp_path / "QueryLevelNorm" / name, "LETOR 4.0")
    expected = "found 2, in QueryLevelNorm.2003_td_dataset, QueryLevelNorm.2004"
    with pytest.raises(LetorFileError, match=expected):
        load_letor(tmp_path)
    data = load_letor(tmp_path / "QueryLevelNorm" / "2003_td_dataset")
    assert data.name == "2003_td_dataset"


DATA = os.environ.get("PERMATCH_DATA")


@pytest.mark.data
@pytest.mark.skipif(not DATA, reason="needs LETOR's OHSUMED: set PERMATCH_DATA")
def test_ohsumed_as_it_was_counted():
    data = load_letor(Path(str(DATA), "letor", "OHSUMED"))
    assert data.name == "OHSUMED"
    tests = [fold.test for fold in data.folds]
    assert sorted(test.n_queries for test in tests) == [21, 21, 21, 21, 22]
    grades = np.concatenate([test.y for test in tests])
    assert np.bincount(grades).tolist() == [11303, 2585, 2252]
    lengths = np.concatenate([np.unique(t.qid, return_counts=True)[1] for t in tests])
    assert (lengths.min(), lengths.max(), len(lengths)) == (35, 320, 106)
    for fold in data.folds:
        assert fold.train.n_features == 25
        parts = (fold.train, fold.validation, fold.test)
        assert sum(part.n_queries for part in parts) == 106
        assert all(part.doc_ids is not None for part in parts)
    # constant within every query
    test = tests[0]
    rows = [test.X[test.qid == query] for query in np.unique(test.qid)]
    is_constant = np.all([np.ptp(block, axis=0) == 0.0 for block in rows], axis=0)
    assert (np.flatnonzero(is_constant) + 1).tolist() == [5, 6, 7, 15, 16, 17]


def test_query_ids_that_are_not_utf8_are_refused(tmp_path):
    path = tmp_path / "a.txt"
    path.write_bytes(b"1 qid:1 1:1\n1 qid:\xff 1:1\n0 qid:\xfe 1:2\n")
    with pytest.raises(LetorFileError, match=r"line 2: query ids must be UTF-8.*xff"):
        read_letor(path)


# ---- errors as data


def test_too_many_features_name_problem_and_advice_apart(tmp_path):
    path = write(tmp_path, OHSUMED)
    with pytest.raises(
        FeatureIndexError, match=r"got index 3\. Give a larger n_features"
    ) as e:
        read_letor(path, n_features=2)
    assert e.value.problem == (
        f"{path}, line 1: documents must have at most 2 features; got index 3."
    )
    other = pickle.loads(pickle.dumps(FeatureIndexError(e.value.problem, "Fit again.")))
    assert str(other) == f"{e.value.problem} Fit again."


def test_a_copied_pipe_is_called_by_its_own_name(tmp_path):
    path = tmp_path / "copy"
    path.write_text("1 qid:1 1:0.5\nwrong\n0.5\n")
    pipe = Copy(str(path), "the pipe")
    with pytest.raises(LetorFileError, match=r"^the pipe, line 2: a line must begin"):
        read_letor(pipe)
    with pytest.raises(LetorFileError, match=r"^the pipe, line 1: a file of scores"):
        read_scores(pipe)
    write(tmp_path, "1 qid:1 1:0.5 900:1\n", "copy")
    with pytest.raises(LetorFileError, match=r"^the pipe: the data may take at most"):
        read_letor(pipe, max_bytes=100)
