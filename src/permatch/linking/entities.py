"""Labelled pairs split by entity: what belongs together stays together."""

from typing import Any

from permatch._cells import as_array, numbered, parse_numbers
from permatch._types import IntArray
from permatch._validation import check_count
from permatch.errors import TableError
from permatch.estimators.entity_folds import deal_entities


def split_entities(
    left: Any, right: Any, label: Any, n_folds: int = 5, random_state: Any = 0
) -> tuple[IntArray, IntArray]:
    """Deal the records of labelled pairs out to folds, linked ones to the same.

    A record must not be trained on and tested on, nor must its partner.  Test on pairs of
    which both records are in the fold, train on those of which neither is; pairs with one
    record in it are in neither part.

    Parameters
    ----------
    left, right : sequences of ids, one per pair
        The records of the two tables.
    label : sequence
        1 for pairs that are links, 0 or empty for others.
    n_folds : int
        Number of folds.
    random_state : int, RandomState or None
        Seed of the shuffle.

    Returns
    -------
    of_left, of_right : ndarray of shape (n_pairs,)
        The fold of the left and of the right record of every pair.

    Examples
    --------
    >>> from permatch.linking import split_entities
    >>> pairs = {"left": ["a", "a", "b", "c"], "right": ["x", "y", "y", "z"]}
    >>> of_left, of_right = split_entities(pairs["left"], pairs["right"], [1, 0, 1, 0], 2)
    >>> bool(of_left[0] == of_right[0] and of_left[2] == of_right[2])
    True
    >>> is_test = (of_left == 0) & (of_right == 0)
    >>> is_train = (of_left != 0) & (of_right != 0)
    """
    n_folds = check_count(n_folds, "n_folds", 2)
    (lefts, n), (rights, k) = numbered(left), numbered(right)
    labels, _ = parse_numbers(as_array(label))
    lengths = len(lefts), len(rights), len(labels)
    if len(set(lengths)) > 1:
        raise TableError(
            "left, right and label must have one entry per pair; got lengths "
            f"{lengths[0]}, {lengths[1]} and {lengths[2]}."
        )
    is_link = labels == 1.0
    matches = lefts[is_link], rights[is_link]
    of_left, of_right = deal_entities(matches, (n, k), n_folds, random_state)
    return of_left[lefts], of_right[rights]
