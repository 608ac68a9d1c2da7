"""What is learned from: other landmarks, other silhouettes, and always the same test."""

from dataclasses import replace

import numpy as np
import pytest

from permatch.errors import InvalidOptionError
from reproduce.experiments.silhouette_protocols import (
    DINGBATS,
    PROTOCOLS,
    digest,
    dingbat,
    draw_pairs,
    other_images,
)
from reproduce.experiments.silhouette_sample_size import Config, run

pytest.importorskip("skimage", reason="needs scikit-image (extra 'vision')")
pytest.importorskip("lightgbm", reason="needs LightGBM (extra 'boosting')")
pytest.importorskip("matplotlib", reason="its font has the dingbats (extra 'plots')")
from skimage import io  # noqa: E402

from permatch.datasets.outline import read_outline  # noqa: E402

TINY = Config.tiny()


def write_shape(path, *blocks):
    """Write an image of white blocks; all are lopsided in their own way."""
    picture = np.zeros((60, 80), np.uint8)
    picture[10:50, 10:30] = 255
    for rows, columns in blocks:
        picture[slice(*rows), slice(*columns)] = 255
    io.imsave(path, picture, check_contrast=False)
    return path


@pytest.fixture
def animals(tmp_path):
    """A folder of made-up silhouettes, and something else."""
    folder = tmp_path / "animals"
    folder.mkdir()
    write_shape(folder / "cat.png", ((10, 25), (30, 70)))
    write_shape(folder / "dog.png", ((30, 45), (30, 60)))
    write_shape(folder / "elk.png", ((10, 20), (30, 50)), ((40, 50), (30, 75)))
    (folder / "notes.txt").write_text("no picture")
    return folder


def content(pairs):
    return [graph.features.tobytes() for graph in pairs.graphs]


def test_the_test_pairs_do_not_depend_on_the_protocol():
    drawn = {name: draw_pairs(TINY, 1, name) for name in PROTOCOLS}
    same = drawn["same-landmarks"]
    for name, other in drawn.items():
        assert content(other.test) == content(same.test)
        for mine, its in zip(
            same.train(4).matchings, other.train(4).matchings, strict=True
        ):
            np.testing.assert_array_equal(mine, its)
        is_same = name == "same-landmarks"
        assert (content(other.train(4)) == content(same.train(4))) == is_same
        assert (content(other.validation(4)) == content(same.validation(4))) == is_same


def test_repeats_learn_from_different_silhouettes(animals):
    first, again, other = (
        draw_pairs(TINY, repeat, "other-silhouette", str(animals)) for repeat in (0, 0, 1)
    )
    assert content(first.train(4)) == content(again.train(4))
    assert content(first.train(4)) != content(other.train(4))
    assert content(first.train(4)) != content(first.validation(4))


def test_a_folder_gives_its_images_but_not_the_one_tested_on(animals):
    assert list(other_images(str(animals))) == ["cat.png", "dog.png", "elk.png"]
    cat = str(animals / "cat.png")
    assert list(other_images(str(animals), cat)) == ["dog.png", "elk.png"]
    assert len(set(digest(str(animals), cat))) == 2
    config = replace(
        TINY, protocol="other-silhouette", others=str(animals), image=cat, n_repeats=1
    )
    losses = [row["hamming_loss"] for row in run(config)]
    assert len(losses) == 5 + 2
    assert all(0.0 <= loss <= 1.0 for loss in losses)
    (animals / "elk.png").unlink()
    with pytest.raises(
        InvalidOptionError,
        match="at least two images, one to train on .*; .*animals has 1 with",
    ):
        replace(config, n_repeats=2)


def test_a_changed_folder_names_other_rows(animals):
    config = replace(TINY, protocol="other-silhouette", others=str(animals))
    before = config.fingerprint()
    write_shape(animals / "cat.png", ((20, 25), (30, 70)))
    assert config.fingerprint() != before
    assert replace(config, others=None).fingerprint() != before


def test_dingbats_are_silhouettes():
    outlines = [read_outline(dingbat(character)) for character in DINGBATS]
    assert len({outline.tobytes() for outline in outlines}) == len(DINGBATS)
    for outline in outlines:
        assert len(outline) > 800
        width, height = np.ptp(outline, axis=0)
        assert 100 < width < 500
        assert 100 < height < 500
