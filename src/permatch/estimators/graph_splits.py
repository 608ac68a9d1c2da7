"""Splits of labelled graphs for the choice of parameters."""

from typing import Any

import numpy as np
from sklearn.model_selection import check_cv

from permatch._types import IntArray
from permatch._validation import check_count, check_weights
from permatch.errors import InvalidMatchingError, InvalidOptionError
from permatch.estimators.checks import DataSet, check_data_set
from permatch.estimators.entity_folds import split_by_entity
from permatch.estimators.splits import shuffled_folds


def folds_of_graphs(
    cv: Any, random_state: Any, n_graphs: int, given: tuple[Any, Any] | None = None
) -> list[tuple[Any, Any]]:
    """Return pairs of what to train on and what to hold out, as a splitter names it.

    A splitter is given the graphs and their labels, where these are in memory.
    """
    try:
        folds = shuffled_folds(cv, random_state, n_graphs, "graphs", "(graphs, matchings)")
        if folds is not None:
            return folds
        splitter: Any = check_cv(cv)
        return list(splitter.split(*(given or (np.zeros((n_graphs, 1)),))))
    except InvalidOptionError:
        raise
    except (TypeError, ValueError) as err:
        raise InvalidOptionError(
            "cv must be a number of folds, a scikit-learn splitter or an iterable "
            f"of (train, test) index arrays; got {cv!r} ({err})."
        ) from err


def positions_of(which: Any, n_graphs: int, fold: int) -> IntArray:
    """Return the numbers of the graphs on one side of a split."""
    try:
        return np.arange(n_graphs)[which]
    except (IndexError, TypeError) as err:
        raise InvalidOptionError(
            f"the index arrays of cv must name graphs 0 .. {n_graphs - 1}; split {fold} "
            f"does not ({err})."
        ) from err


def split_graphs(
    cv: Any, random_state: Any, data: DataSet
) -> list[tuple[DataSet, DataSet]]:
    """Return pairs of training and held-out graphs.

    A single graph is split by its nodes if `cv` is a number, matched ones together.
    """
    if len(data[0]) == 1:
        found = _split_entities(cv, random_state, data)
        if found is not None:
            return found
    folds = folds_of_graphs(cv, random_state, len(data[0]), data[:2])
    return [
        (_take(data, train, k), _take(data, test, k))
        for k, (train, test) in enumerate(folds)
    ]


def _split_entities(
    cv: Any, random_state: Any, data: DataSet
) -> list[tuple[DataSet, DataSet]] | None:
    """Return folds of the nodes of one graph if `cv` is a number, else None."""
    if not isinstance(cv, int | np.integer) or isinstance(cv, bool):
        return None
    n_folds = check_count(cv, "cv", 2)
    (graph,), (known,), _ = data
    if (n_matches := int(known.is_match.sum())) < n_folds:
        raise InvalidOptionError(
            f"cv must be at most the number of matches of the only graph, {n_matches}; "
            f"got {n_folds}. Use a smaller cv, or validation=(graphs, matchings)."
        )
    return [
        (([train[0]], [train[1]], np.ones(1)), ([test[0]], [test[1]], np.ones(1)))
        for train, test in split_by_entity(graph, known, n_folds, random_state)
    ]


def _take(data: DataSet, which: Any, fold: int) -> DataSet:
    """Return the graphs of one side of a split, weights summing to one again."""
    graphs, labels, weights = data
    chosen = positions_of(which, len(graphs), fold)
    if not weights[chosen].any():
        raise InvalidOptionError(
            "every split of cv needs training and held-out graphs with a sample_weight "
            f"above 0; split {fold} lacks one. Use fewer folds."
        )
    return (
        [graphs[k] for k in chosen],
        [labels[k] for k in chosen],
        check_weights(weights[chosen], len(chosen)),
    )


def check_pair(validation: Any) -> tuple[Any, Any]:
    """Return the graphs and the matchings of a validation set."""
    if not isinstance(validation, tuple | list) or len(validation) != 2:
        raise InvalidOptionError(
            "validation must be a pair (graphs, matchings); got "
            f"{type(validation).__name__}."
        )
    return validation[0], validation[1]


def check_validation(
    validation: Any, n_features: int, n_node_features: tuple[int, int]
) -> DataSet:
    """Return a validation set in memory, checked like the training set."""
    return check_data_set(*check_pair(validation), None, n_features, n_node_features)


def require_partners(has_partners: bool, n_graphs: int) -> None:
    """Refuse held-out graphs that say nothing about the Hamming loss."""
    if not has_partners:
        raise InvalidMatchingError(
            "scoring='hamming' needs held-out graphs with a left node whose partner is "
            f"known; one split has none in {n_graphs} graphs. Use fewer folds, "
            "label more nodes, or use scoring='log_likelihood'."
        )
