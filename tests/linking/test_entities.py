"""Labelled pairs split by entity."""

import numpy as np
import pytest

from permatch.errors import InvalidOptionError, TableError
from permatch.linking import split_entities


def test_records_keep_their_fold_and_their_partner():
    rng = np.random.default_rng(0)
    left, right = rng.integers(40, size=300), rng.integers(30, size=300)
    label = (left % 30 == right).astype(float)
    of_left, of_right = split_entities(left.astype(str), right, label, 4)
    for ids, folds in ((left, of_left), (right, of_right)):
        assert all(len(set(folds[ids == value])) == 1 for value in set(ids))
        assert set(folds) == {0, 1, 2, 3}
    assert (of_left[label == 1] == of_right[label == 1]).all()
    assert (of_left != of_right).any()


def test_labels_may_be_text_and_empty():
    ids = np.arange(6)
    pairs = split_entities(ids, ids, ["1", "", "0", None, "1", "true"], 2, 3)
    again = split_entities(ids, ids, [1, 0, 0, 0, 1, 1], 2, 3)
    assert (np.array(pairs) == np.array(again)).all()


def test_arrow_columns_are_read():
    arrow = pytest.importorskip("pyarrow")
    ids, label = ["u", "v", "u", "w"], [1, 0, 0, 1]
    of_left, of_right = split_entities(arrow.array(ids), arrow.array(ids[::-1]), label, 2)
    expected = split_entities(ids, ids[::-1], label, 2)
    assert (np.array([of_left, of_right]) == np.array(expected)).all()


def test_messages():
    with pytest.raises(TableError, match="got lengths 2, 1 and 2"):
        split_entities([1, 2], [1], [0, 1])
    with pytest.raises(InvalidOptionError, match="n_folds"):
        split_entities([1], [1], [1], 1)
