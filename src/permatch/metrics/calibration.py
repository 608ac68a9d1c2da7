"""Calibration: of what is given 70 %, 70 % should be correct."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from permatch._types import FloatArray, IntArray
from permatch._validation import check_choice, check_count
from permatch.errors import InvalidGraphError, InvalidOptionError
from permatch.metrics.labelled_edges import label_edges

#: How the bins are cut.
STRATEGIES = ("uniform", "quantile")

#: An edge that is less probable is not plausible.
PLAUSIBLE = 0.05


@dataclass(frozen=True, eq=False)
class Calibration:
    """The reliability curve of predicted probabilities.

    Attributes
    ----------
    bin_edges : ndarray of shape (n_bins + 1,)
        Limits of the bins, increasing; a bin includes its lower limit, the last one both.
    mean_predicted : ndarray of shape (n_bins,)
        Mean predicted probability of the edges, or nodes, in each bin; NaN if it is empty.
    observed : ndarray of shape (n_bins,)
        Share of these that are right; NaN if the bin is empty.
    counts : ndarray of shape (n_bins,)
        Number of edges, or nodes, in each bin.
    expected_calibration_error : float
        Mean of ``|observed - mean_predicted|``, weighted by `counts`.
    n_left_out : int
        Edges that were too improbable to be counted.
    unit : str
        What is counted, ``"edge"`` or ``"node"``.

    Examples
    --------
    >>> import numpy as np
    >>> from permatch.metrics import calibration
    >>> found = calibration([np.eye(2)], [[0, 1]], n_bins=2)
    >>> found.counts.tolist(), found.n_left_out, found.expected_calibration_error
    ([0, 2], 2, 0.0)
    """

    bin_edges: FloatArray
    mean_predicted: FloatArray
    observed: FloatArray
    counts: IntArray
    expected_calibration_error: float
    n_left_out: int = 0
    unit: str = "edge"

    @property
    def confidence(self) -> float:
        """Mean predicted probability of all that is counted."""
        return float(self.counts @ np.nan_to_num(self.mean_predicted) / self.counts.sum())

    @property
    def accuracy(self) -> float:
        """Share of all that is counted that is right."""
        return float(self.counts @ np.nan_to_num(self.observed) / self.counts.sum())


def calibration(
    marginals: Sequence[Any],
    matchings: Sequence[Any],
    n_bins: int = 10,
    *,
    strategy: Literal["uniform", "quantile"] = "uniform",
    graphs: Sequence[Any] | None = None,
    min_probability: float = PLAUSIBLE,
) -> Calibration:
    """Compare predicted edge probabilities with how often the edges are matched.

    The plausible edges of all graphs are pooled and binned by predicted probability.

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
    min_probability : float
        Edges that are less probable are left out: in a large graph nearly all edges have
        probabilities near 0, rightly so, and would hide the others.  0 counts all.

    Returns
    -------
    Calibration
        Curve, counts and expected calibration error.

    See Also
    --------
    node_calibration : The same by node: is the most probable partner right as often as
        it is probable?

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
    n_bins, least = _check_options(n_bins, strategy, min_probability)
    edges = label_edges(marginals, matchings, graphs)
    is_known = edges.values >= 0
    is_counted = is_known & (edges.predicted >= least)
    if not is_counted.any():
        raise InvalidGraphError(
            "calibration needs at least one edge of which it is known whether it is in the "
            f"true matching, with a probability of at least {least:g}; got none in "
            f"{len(marginals)} graphs, and {int(is_known.sum())} that are less probable. "
            "Label more edges, or lower min_probability."
        )
    n_left_out = int(is_known.sum() - is_counted.sum())
    predicted, is_matched = edges.predicted[is_counted], edges.values[is_counted]
    return _bin(predicted, is_matched, n_bins, strategy, n_left_out)


def node_calibration(
    marginals: Sequence[Any],
    matchings: Sequence[Any],
    n_bins: int = 10,
    *,
    strategy: Literal["uniform", "quantile"] = "uniform",
    graphs: Sequence[Any] | None = None,
) -> Calibration:
    """Compare confidence with accuracy: one prediction per left node.

    A node is predicted to have its most probable partner, or none where that is more
    probable; its confidence is the probability of this prediction.  The nodes of all graphs
    are pooled and binned by confidence.

    Parameters
    ----------
    marginals : sequence of arrays (n, k) or (n_edges,)
        Predicted probability of every edge of every graph; what is missing to 1 is the
        probability that a node stays unmatched.
    matchings : sequence of integer arrays of shape (n,), Known or EdgeLabels
        The true matching of every graph, -1 for unmatched nodes.  Nodes of which it is not
        known whether the prediction is right are left out, and those without edges.
    n_bins : int
        Number of bins.
    strategy : {"uniform", "quantile"}
        Bins of equal width, or with equally many nodes.
    graphs : sequence of (n, k, d) arrays or BipartiteGraph, optional
        As of `calibration`.

    Returns
    -------
    Calibration
        Its ``confidence`` and ``accuracy`` are the means over all nodes.

    Examples
    --------
    >>> import numpy as np
    >>> sure = np.array([[0.8, 0.2], [0.2, 0.8]])
    >>> result = node_calibration([sure, sure], [[0, 1], [1, 0]])
    >>> round(result.confidence, 3), result.accuracy
    (0.8, 0.5)
    """
    n_bins, _ = _check_options(n_bins, strategy, 0.0)
    predicted, values, left = label_edges(marginals, matchings, graphs, by_node=True)
    confidence, outcome = np.empty(0), np.empty(0, int)
    if len(left):
        starts = np.flatnonzero(np.diff(left, prepend=left[0] - 1))
        best = np.maximum.reduceat(predicted, starts)
        # The first of equally probable ones.
        n_edges = np.diff(starts, append=len(left))
        where = np.flatnonzero(predicted == np.repeat(best, n_edges))
        chosen = where[np.searchsorted(where, starts)]
        alone = 1.0 - np.add.reduceat(predicted, starts)
        is_alone = alone > best
        confidence = np.where(is_alone, alone, best)
        # Alone is right where no edge is matched, and unknown where one may be.
        highest = np.maximum.reduceat(values, starts)
        lowest = np.minimum.reduceat(values, starts)
        of_alone = np.where(highest == 1, 0, np.where(lowest == -1, -1, 1))
        outcome = np.where(is_alone, of_alone, values[chosen])
    is_known = outcome >= 0
    if not is_known.any():
        raise InvalidGraphError(
            "node calibration needs at least one left node of which it is known whether "
            f"its most probable partner is right; got none in {len(marginals)} graphs. "
            "Label more nodes."
        )
    return _bin(confidence[is_known], outcome[is_known], n_bins, strategy, unit="node")


def _check_options(n_bins: Any, strategy: Any, min_probability: Any) -> tuple[int, float]:
    n_bins = check_count(n_bins, "n_bins", 1)
    check_choice(strategy, "strategy", STRATEGIES)
    is_number = isinstance(min_probability, int | float | np.integer | np.floating)
    if not is_number or not 0.0 <= min_probability <= 1.0:
        raise InvalidOptionError(
            "min_probability must be a number from 0 to 1; got "
            f"{min_probability!r}. 0 counts all edges."
        )
    return n_bins, float(min_probability)


def _bin(
    predicted: FloatArray,
    is_right: IntArray,
    n_bins: int,
    strategy: str,
    n_left_out: int = 0,
    unit: str = "edge",
) -> Calibration:
    """Return the curve of probabilities, and of 1 where what they are of came true."""
    edges = np.linspace(0.0, 1.0, n_bins + 1)
    if strategy == "quantile":
        edges = np.unique(np.quantile(predicted, edges))
        if len(edges) == 1:  # all the same: a bin from there to there
            edges = np.repeat(edges, 2)
    bins = np.searchsorted(edges[1:-1], predicted, side="right")
    counts = np.bincount(bins, minlength=len(edges) - 1)
    sums = np.bincount(bins, predicted, minlength=len(counts))
    hits = np.bincount(bins, is_right, minlength=len(counts))
    is_used = counts > 0
    empty = np.full(len(counts), np.nan)
    return Calibration(
        bin_edges=edges,
        mean_predicted=np.divide(sums, counts, out=empty.copy(), where=is_used),
        observed=np.divide(hits, counts, out=empty, where=is_used),
        counts=counts.astype(np.intp, copy=False),
        expected_calibration_error=float(np.abs(hits - sums).sum() / len(predicted)),
        n_left_out=n_left_out,
        unit=unit,
    )
