"""Splits of queries for the choice of parameters, and shuffled folds of anything."""

import warnings
from typing import Any

import numpy as np
from sklearn.model_selection import KFold, check_cv

from permatch._shards import Shards, light
from permatch._types import IntArray
from permatch._validation import check_count
from permatch.errors import InvalidOptionError
from permatch.queries import QuerySet, query_rows


def shuffled_folds(
    cv: Any, random_state: Any, n_all: int, things: str, other: str
) -> list[Any] | None:
    """Return pairs of positions if `cv` is a number of folds, else None.

    Messages call what is split `things`, and a validation set instead `other`.
    """
    if not isinstance(cv, int | np.integer) or isinstance(cv, bool):
        return None
    n_folds = check_count(cv, "cv", 2)
    if n_folds > n_all:
        raise InvalidOptionError(
            f"cv must be at most the number of {things}, {n_all}; got {n_folds}. Use "
            f"a smaller cv, or validation={other}."
        )
    shuffled = KFold(n_folds, shuffle=True, random_state=random_state)
    return list(shuffled.split(range(n_all)))


def split_queries(
    cv: Any, random_state: Any, shards: Shards, given: tuple[Any, Any] | None
) -> list[tuple[IntArray, IntArray]]:
    """Return pairs of training and held-out query numbers.

    `given` are the qid and group of data in memory, which may be in any order.
    """
    check_count(random_state, "random_state", 0)
    lengths, ids = map(np.concatenate, zip(*shards.map(_outline), strict=True))
    folds = shuffled_folds(cv, random_state, len(lengths), "queries", "(X, y, qid)")
    if folds is not None:
        return folds
    owners = np.repeat(np.arange(len(lengths)), lengths)
    if given is not None:
        owners = query_rows(*given, len(owners)).scatter(owners)
    try:
        splitter: Any = check_cv(cv)
        with warnings.catch_warnings():
            # A splitter that splits queries is refused below.
            warnings.filterwarnings("ignore", "The groups parameter is ignored")
            found = list(splitter.split(np.zeros((len(owners), 1)), None, owners))
        parts = [[np.unique(owners[side]) for side in split] for split in found]
    except (TypeError, ValueError, IndexError) as err:
        raise InvalidOptionError(
            "cv must be a number of folds, a scikit-learn splitter that keeps "
            "groups together, or an iterable of (train, test) arrays of row numbers; "
            f"got {cv!r} ({err})."
        ) from err
    if not parts or not all(len(train) and len(test) for train, test in parts):
        raise InvalidOptionError(
            "cv must give at least one split, each with training and held-out "
            f"queries; got {len(parts)} splits, with "
            f"{[(len(train), len(test)) for train, test in parts]} queries."
        )
    for k, (train, test) in enumerate(parts):
        shared = np.intersect1d(train, test)
        if len(shared):
            raise InvalidOptionError(
                "cv must keep the documents of a query together; split "
                f"{k} has query {ids[shared[0]]} on both sides. Use "
                "GroupKFold, or a number of folds."
            )
    return [(train, test) for train, test in parts]


@light
def _outline(queries: QuerySet) -> tuple[IntArray, np.ndarray]:
    return queries.lengths, queries.ids
