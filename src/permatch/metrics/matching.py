"""The distance of predicted matchings from true ones."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from permatch._types import FloatArray, IntArray
from permatch._validation import check_weights, refuse_masked
from permatch.decoding.bayes import ABSTAINED
from permatch.errors import InvalidMatchingError
from permatch.graphs import BipartiteGraph
from permatch.known import Known
from permatch.labels import UNKNOWN, EdgeLabels, KnownEdges, check_known


def hamming_loss(
    true: Sequence[Any],
    predicted: Sequence[Any],
    *,
    sample_weight: Any = None,
    graphs: Sequence[Any] | None = None,
) -> float:
    """Return the share of left nodes with a wrong partner, averaged over graphs.

    A partner instead of none is wrong, and so is none instead of a partner, or leaving the
    node to a person.

    Parameters
    ----------
    true, predicted : sequences of matchings
        One integer array per graph: the right node of every left node, -1 if it has none.
        Nodes whose true partner is -2, unknown, are left out, and so are graphs in which
        no partner is known; a predicted -2 (``pm.ABSTAINED``) leaves the node to a person.
    sample_weight : array of shape (n,), optional
        Weight of every graph in the average.
    graphs : sequence of (n, k, d) arrays or BipartiteGraph, optional
        The graphs; required if `true` has `Known` or `EdgeLabels`.

    Returns
    -------
    float
        Between 0 and 1.

    Examples
    --------
    >>> hamming_loss([[0, 1, 2], [1, 0]], [[0, 2, 1], [1, 0]])
    0.3333333333333333
    """
    losses = graph_losses(true, predicted, graphs)
    is_known = ~np.isnan(losses)
    weights = check_weights(sample_weight, len(losses)) * is_known
    if not weights.any():
        raise InvalidMatchingError(
            "the Hamming loss needs a left node whose true partner is known; there is none "
            f"in {len(losses)} graphs with weight. Label more nodes."
        )
    if not is_known.all():
        weights = check_weights(weights, len(losses))
    return float(weights @ np.where(is_known, losses, 0.0))


def graph_losses(
    true: Sequence[Any], predicted: Sequence[Any], graphs: Sequence[Any] | None = None
) -> FloatArray:
    """Return the Hamming loss of every graph (n,), NaN where no partner is known."""
    check_lists(true, predicted)
    if len(true) == 0:
        raise InvalidMatchingError(
            "the Hamming loss needs at least one graph; true and predicted are empty."
        )
    known = read_labels(true, graphs)
    losses = np.zeros(len(true))
    for k, answer in enumerate(predicted):
        a = check_matching(true[k], k, UNKNOWN) if known is None else known[k].matching
        n_right = None if known is None else known[k].structure.n_right
        b = check_matching(answer, k, ABSTAINED, len(a), n_right)
        wrong = (a != b)[a != UNKNOWN]
        if len(wrong):
            losses[k] = wrong.mean()
        elif len(a):
            losses[k] = np.nan
    return losses


def check_lists(true: Any, predicted: Any) -> None:
    """Refuse what is not two lists of equal length."""
    for name, value in (("true", true), ("predicted", predicted)):
        if not isinstance(value, Sequence | np.ndarray) or isinstance(value, str | bytes):
            raise InvalidMatchingError(
                f"{name} must be a list with one matching per graph; got "
                f"{type(value).__name__}. Wrap a single one: [matching]."
            )
    if len(true) != len(predicted):
        raise InvalidMatchingError(
            "true and predicted must be lists of equal length, one matching per graph; got "
            f"{len(true)} and {len(predicted)}."
        )


def as_graphs(graphs: Any) -> list[BipartiteGraph]:
    """Return graphs or arrays of features as a list of graphs."""
    if not isinstance(graphs, Sequence | np.ndarray):
        raise InvalidMatchingError(
            f"graphs must be a list of graphs; got {type(graphs).__name__}. Wrap a single "
            "one: [graph]."
        )
    return [g if isinstance(g, BipartiteGraph) else BipartiteGraph(g) for g in graphs]


def read_labels(labels: Any, graphs: Any) -> list[KnownEdges] | None:
    """Return what is known about the graphs; None without graphs, for plain matchings."""
    if graphs is not None:
        return check_known(as_graphs(graphs), labels)
    for k, label in enumerate(labels):
        if isinstance(label, EdgeLabels | Known):
            raise InvalidMatchingError(
                "labels must be integer arrays with the right node of every left node, or "
                f"come with their graphs; that of graph {k} is of type "
                f"{type(label).__name__}. Pass graphs=."
            )
    return None


def check_matching(
    matching: Any,
    graph: int,
    least: int,
    size: int | None = None,
    n_right: int | None = None,
) -> IntArray:
    """Return a matching (size,) of entries of at least `least`, no partner taken twice."""
    refuse_masked(matching, "a matching", InvalidMatchingError)
    try:
        array = np.asarray(matching)
    except ValueError:  # rows of different lengths
        array = np.asarray(matching, dtype=object)
    if array.size == 0:
        array = array.astype(np.intp)  # NumPy takes an empty list for floats
    size = array.size if size is None else size
    if array.dtype.kind not in "iu" or array.shape != (size,):
        raise InvalidMatchingError(
            f"a matching must be an integer array with one entry per left node, {size}; "
            f"got dtype {array.dtype} and shape {array.shape} for graph {graph}."
        )
    partners = array[array >= 0]
    if (array < least).any() or len(np.unique(partners)) < len(partners):
        raise InvalidMatchingError(
            "a matching must hold right nodes, each at most once, or -1 for unmatched; got "
            f"{array.tolist() if size <= 20 else 'others'} for graph {graph}. Nodes are "
            "counted from 0."
        )
    if n_right is not None and partners.max(initial=-1) >= n_right:
        raise InvalidMatchingError(
            f"a matching must hold right nodes 0 .. {n_right - 1}; that of graph {graph} "
            f"has {partners.max()}."
        )
    return array.astype(np.intp)
