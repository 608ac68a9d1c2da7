"""The checks of options and training sets that estimators share."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from permatch._types import FloatArray
from permatch._validation import check_weights
from permatch.errors import InvalidOptionError
from permatch.graphs import BipartiteGraph, check_graphs
from permatch.labels import KnownEdges, check_known

#: Graphs, what is known about their matchings, and their weights, which sum to one.
DataSet = tuple[list[BipartiteGraph], list[KnownEdges], FloatArray]


def check_data_set(
    graphs: Any,
    matchings: Any,
    sample_weight: Any,
    n_features: int | None = None,
    n_node_features: tuple[int, int] | None = None,
) -> DataSet:
    """Return labelled graphs with their labels and weights, all checked."""
    checked = check_graphs(graphs, n_features, n_node_features)
    labels = check_known(checked, matchings)
    return checked, labels, check_weights(sample_weight, len(checked))


def with_weight(data: DataSet) -> DataSet:
    """Return the graphs that have a weight above 0."""
    graphs, labels, weights = data
    kept = np.nonzero(weights)[0]
    return [graphs[k] for k in kept], [labels[k] for k in kept], weights[kept]


def check_feature_names(names: Sequence[str] | None, n_features: int) -> list[str] | None:
    """Return one distinct name per feature, or None."""
    if names is None:
        return None
    try:
        found = [names] if isinstance(names, str) else list(names)
    except TypeError as err:
        raise InvalidOptionError(
            f"feature_names must be a sequence of strings; got {names!r}."
        ) from err
    if not all(isinstance(name, str) for name in found):
        raise InvalidOptionError(f"feature_names must be strings; got {found!r}.")
    if len(found) != n_features or len(set(found)) != n_features:
        raise InvalidOptionError(
            f"feature_names must be {n_features} different strings, one per feature; got "
            f"{len(found)}, {len(set(found))} of them different."
        )
    return [str(name) for name in found]


def column_names(X: Any) -> list[str] | None:
    """Return the names of the columns of a DataFrame; None of anything else."""
    columns = getattr(X, "columns", None)
    if columns is None or not all(isinstance(name, str) for name in columns):
        return None
    return list(columns)


def check_number(value: Any, name: str, *, is_zero_allowed: bool = True) -> float:
    """Return a finite number of at least, or above, 0."""
    is_number = isinstance(value, int | float | np.integer | np.floating)
    try:
        number = float(value) if is_number and not isinstance(value, bool) else np.nan
    except OverflowError:  # a whole number beyond all floats
        number = np.inf
    if not (0.0 <= number < np.inf) or (number == 0.0 and not is_zero_allowed):
        bound = "of at least 0" if is_zero_allowed else "above 0"
        raise InvalidOptionError(f"{name} must be a finite number {bound}; got {value!r}.")
    return number
