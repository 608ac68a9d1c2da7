"""Calibration: of the edges given 70 %, 70 % should be correct."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from permatch._types import FloatArray, IntArray
from permatch._validation import check_choice, check_count, refuse_masked
from permatch.errors import InvalidGraphError, InvalidMatchingError
from permatch.graphs import BipartiteGraph
from permatch.known import Known
from permatch.labels import UNKNOWN, EdgeLabels, check_known
from permatch.metrics.matching import as_graphs, check_matching

#: How the bins are cut.
STRATEGIES = ("uniform", "quantile")

# Marginals may miss [0, 1] by rounding.
_ROUNDING = 1e-9


@dataclass(frozen=True, eq=False)
class Calibration:
    """The reliability curve of predicted edge probabilities.

    Attributes
    ----------
    bin_edges : ndarray of shape (n_bins + 1,)
        Limits of the bins, increasing; a bin includes its lower limit, the last one both.
    mean_predicted : ndarray of shape (n_bins,)
        Mean predicted probability of the edges in each bin; NaN if it is empty.
    observed : ndarray of shape (n_bins,)
        Share of these edges that are in the true matching; NaN if the bin is empty.
    counts : ndarray of shape (n_bins,)
        Number of edges in each bin.
    expected_calibration_error : float
        Mean of ``|observed - mean_predicted|``, weighted by `counts`.

    Examples
    --------
    >>> import numpy as np
    >>> from permatch.metrics import calibration
    >>> found = calibration([np.eye(2)], [[0, 1]], n_bins=2)
    >>> found.counts.tolist(), found.expected_calibration_error
    ([2, 2], 0.0)
    """

    bin_edges: FloatArray
    mean_predicted: FloatArray
    observed: FloatArray
    counts: IntArray
    expected_calibration_error: float


def calibration(
    marginals: Sequence[Any],
    matchings: Sequence[Any],
    n_bins: int = 10,
    *,
    strategy: Literal["uniform", "quantile"] = "uniform",
    graphs: Sequence[Any] | None = None,
) -> Calibration:
    """Compare predicted edge probabilities with how often the edges are matched.

    The edges of all graphs are pooled and binned by predicted probability.

    Parameters
    ----------
    marginals : sequence of arrays (n, k) or (n_edges,)
        Predicted probability of every edge of every graph.
    matchings : sequence of integer arrays of shape (n,), Known or EdgeLabels
        The true matching of every graph, -1 for unmatched nodes and -2 for nodes of which
        it is not known.  Edges about which nothing is known are left out.
    n_bins : int
        Number of bins.
    strategy : {"uniform", "quantile"}
        Bins of equal width, or with equally many edges.  Quantile bins may be fewer, since
        equal probabilities share a bin.
    graphs : sequence of (n, k, d) arrays or BipartiteGraph, optional
        The graphs, whose allowed edges are then pooled; required for `Known`, and for
        matchings of graphs made from edges.

    Returns
    -------
    Calibration
        Curve, counts and expected calibration error.

    Notes
    -----
    Most edges of a large graph have probabilities near 0, rightly so, which keeps the
    expected calibration error small; look at the curve too.

    Examples
    --------
    Two graphs whose likelier matching was given 80 %, and was correct once.

    >>> import numpy as np
    >>> sure = np.array([[0.8, 0.2], [0.2, 0.8]])
    >>> result = calibration([sure, sure], [[0, 1], [1, 0]], n_bins=2)
    >>> result.mean_predicted, result.observed, result.counts
    (array([0.2, 0.8]), array([0.5, 0.5]), array([4, 4]))
    >>> round(result.expected_calibration_error, 3)
    0.3
    """
    n_bins = check_count(n_bins, "n_bins", 1)
    check_choice(strategy, "strategy", STRATEGIES)
    predicted, is_matched = _pool(marginals, matchings, graphs)
    edges = np.linspace(0.0, 1.0, n_bins + 1)
    if strategy == "quantile":
        edges = np.unique(np.quantile(predicted, edges))
        if len(edges) == 1:  # all the same: a bin from there to there
            edges = np.repeat(edges, 2)
    bins = np.searchsorted(edges[1:-1], predicted, side="right")
    counts = np.bincount(bins, minlength=len(edges) - 1)
    sums = np.bincount(bins, predicted, minlength=len(counts))
    hits = np.bincount(bins, is_matched, minlength=len(counts))
    is_used = counts > 0
    empty = np.full(len(counts), np.nan)
    return Calibration(
        bin_edges=edges,
        mean_predicted=np.divide(sums, counts, out=empty.copy(), where=is_used),
        observed=np.divide(hits, counts, out=empty, where=is_used),
        counts=counts.astype(np.intp, copy=False),
        expected_calibration_error=float(np.abs(hits - sums).sum() / len(predicted)),
    )


def _pool(
    marginals: Sequence[Any], matchings: Sequence[Any], graphs: Sequence[Any] | None
) -> tuple[FloatArray, FloatArray]:
    """Return the probability of every edge, and 1.0 where it is matched, of all graphs."""
    for name, value in (("marginals", marginals), ("matchings", matchings)):
        if not isinstance(value, Sequence | np.ndarray):
            raise InvalidMatchingError(
                f"{name} must be a list with one entry per graph; got "
                f"{type(value).__name__}. Wrap a single one in a list."
            )
    if len(marginals) != len(matchings):
        raise InvalidMatchingError(
            "marginals and matchings must be lists of equal length, one entry per graph; "
            f"got {len(marginals)} and {len(matchings)}."
        )
    given = None if graphs is None else as_graphs(graphs)
    known = None if given is None else check_known(given, matchings)
    predicted, is_matched = [np.empty(0)], [np.empty(0)]
    for k, (table, label) in enumerate(zip(marginals, matchings, strict=True)):
        array = _check_marginals(table, k)
        if given is None or known is None:
            values = _edge_values(array, label, k)
        else:
            array = _on_edges(array, given[k], k)
            values = np.where(known[k].is_open, -1, known[k].is_match)
        is_known = values >= 0
        predicted.append(np.clip(array[is_known], 0.0, 1.0))
        is_matched.append(values[is_known].astype(float))
    pooled = np.concatenate(predicted)
    if not len(pooled):
        raise InvalidGraphError(
            "calibration needs at least one edge of which it is known whether it is in the "
            f"true matching; got none in {len(marginals)} graphs. Label more edges."
        )
    return pooled, np.concatenate(is_matched)


def _check_marginals(table: Any, k: int) -> FloatArray:
    refuse_masked(table, f"the table of marginals of graph {k}", InvalidGraphError)
    array = np.asarray(table, dtype=np.float64)
    if array.ndim not in (1, 2):
        raise InvalidGraphError(
            "marginals must have one array (n, k) per graph, or (n_edges,); that of graph "
            f"{k} has shape {array.shape}."
        )
    is_bad = ~((array >= -_ROUNDING) & (array <= 1.0 + _ROUNDING))
    if is_bad.any():
        place = tuple(int(n) for n in np.argwhere(is_bad)[0])
        edge = place if array.ndim == 2 else place[0]
        raise InvalidGraphError(
            f"marginals must lie between 0 and 1; edge {edge} of graph {k} has "
            f"{array[place]}. Give probabilities, not scores."
        )
    return array


def _on_edges(array: FloatArray, graph: BipartiteGraph, k: int) -> FloatArray:
    """Return the marginals of the allowed edges."""
    shape = (graph.n_left, graph.n_right) if graph.is_dense else (graph.n_edges,)
    if array.shape != shape:
        raise InvalidGraphError(
            f"marginals must be shaped like the graph; those of graph {k} have shape "
            f"{array.shape}, the graph has {shape}. Pass those of predict_marginals."
        )
    return graph.pick(array)


def _edge_values(array: FloatArray, label: Any, k: int) -> IntArray:
    """Return 1 for edges that are matched, 0 for others, -1 if unknown, like `array`."""
    if isinstance(label, EdgeLabels):
        if label.values.shape != array.shape:
            raise InvalidMatchingError(
                f"labels of edges must be shaped like the marginals; those of graph {k} "
                f"have shapes {label.values.shape} and {array.shape}."
            )
        return label.values
    if array.ndim == 1:
        raise InvalidMatchingError(
            f"marginals on a list of edges need EdgeLabels or the graphs; graph {k} has a "
            f"label of type {type(label).__name__}. Pass graphs=."
        )
    if isinstance(label, Known):
        raise InvalidMatchingError(
            f"a label of type Known needs the graphs; graph {k} has one. Pass graphs=."
        )
    matching = check_matching(label, k, UNKNOWN, *array.shape)
    values = (matching[:, None] == np.arange(array.shape[1])).astype(np.int8)
    values[matching == UNKNOWN] = -1
    return values
