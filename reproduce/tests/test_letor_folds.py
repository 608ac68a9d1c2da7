"""Folds: where they are looked for, how they are scaled, what names them."""

import numpy as np
import pytest

from permatch.errors import LetorFileError
from reproduce.experiments.letor_folds import find_folder, load_folds
from reproduce.tests.letor_folder import flip_grades, write_letor


@pytest.fixture
def root(tmp_path):
    return write_letor(tmp_path)


def test_the_folder_is_found_from_above_and_in_either_case(root, monkeypatch):
    folder = root / "letor" / "OHSUMED"
    for place in (root, root / "letor", folder):
        assert find_folder("ohsumed", place) == folder
    monkeypatch.setenv("PERMATCH_DATA", str(root))
    assert find_folder("OHSUMED") == folder
    renamed = root / "letor" / "Ohsumed"
    folder.rename(renamed)
    assert find_folder("OHSUMED") == renamed


def test_absent_data_is_explained(root, monkeypatch):
    monkeypatch.delenv("PERMATCH_DATA", raising=False)
    with pytest.raises(LetorFileError, match=r"no folder was given\. Use --data DIR or"):
        find_folder("OHSUMED")
    with pytest.raises(LetorFileError, match=r"neither .*TD2003 nor .*letor.*TD2003"):
        find_folder("TD2003", root)
    monkeypatch.setenv("PERMATCH_DATA", str(root / "none"))
    with pytest.raises(LetorFileError, match=r"none .from PERMATCH_DATA. is not a folder"):
        find_folder("OHSUMED")


def test_features_are_scaled_within_queries_and_constant_ones_are_safe(root):
    data = load_folds("ohsumed", root)
    assert (data.name, data.n_grades, data.n_queries) == ("OHSUMED", 3, 15)
    for fold in data.folds:
        for part in (fold.train, fold.validation, fold.test):
            for first, last in zip(part.starts[:-1], part.starts[1:], strict=True):
                rows = part.X[first:last]
                np.testing.assert_array_equal(rows[:, :3].min(axis=0), 0.0)
                np.testing.assert_array_equal(rows[:, :3].max(axis=0), 1.0)
                np.testing.assert_array_equal(rows[:, 3], 0.0)
    tested = [query for fold in data.folds for query in fold.test.ids]
    assert sorted(tested) == list(range(1, 16))


def test_the_digest_names_the_content_and_not_the_place(root, tmp_path_factory):
    digest = load_folds("OHSUMED", root).digest
    copy = write_letor(tmp_path_factory.mktemp("copy"))
    assert load_folds("OHSUMED", copy).digest == digest
    flip_grades(copy, 1, "test")
    assert load_folds("OHSUMED", copy).digest != digest
