"""Features centred, and divided by their spread, so that `alpha` does not depend on units.

    scaled feature = (feature - centre) / scale        coef = scaled coef / scale

The penalty acts on the scaled coefficients.  Where any node may stay unmatched, centring
features moves the intercept, which is not penalised:

    2 intercept = 2 scaled intercept + <coef, centre> - <left, centre> - <right, centre>

with the centres of edges, left nodes and right nodes.  Where all nodes of the smaller side
are matched, a constant added to a feature on all edges of a graph changes all its matchings
alike.
"""

from dataclasses import dataclass

import numpy as np

from permatch._types import FloatArray, IntArray
from permatch.errors import PrecisionError
from permatch.estimators.checks import DataSet
from permatch.graphs import BipartiteGraph
from permatch.objectives import Parameters, Part, arrange
from permatch.objectives.feature_table import FeatureTable
from permatch.objectives.stacks import FeatureStack


@dataclass(frozen=True, eq=False)
class Design:
    """Training graphs with scaled features."""

    parameters: Parameters
    parts: list[Part]
    shares: FloatArray  # of the graphs; they sum to one
    scale: FloatArray  # divisor of every parameter's feature
    #: The intercept is that of the scaled features plus this times the other weights.
    shift: FloatArray | None


def feature_scale(
    graphs: list[BipartiteGraph], weights: FloatArray | None = None
) -> FloatArray:
    """Return the standard deviation of every feature over all allowed edges.

    Parameters
    ----------
    graphs : list of BipartiteGraph
        The training graphs, all with d features.
    weights : ndarray of shape (n,), optional
        Positive weight of every graph; 2 is like passing the graph twice.

    Returns
    -------
    ndarray of shape (d,)
        1 for constant features.

    Examples
    --------
    >>> import numpy as np
    >>> features = np.array([[[0.0, 7.0], [4.0, 7.0]], [[4.0, 7.0], [0.0, 7.0]]])
    >>> feature_scale([BipartiteGraph(features)])
    array([2., 1.])
    """
    shares = np.ones(len(graphs)) if weights is None else weights
    edges = [graph.edge_features for graph in graphs]
    counts = [graph.n_edges for graph in graphs]
    return _spread([(np.concatenate(edges), np.repeat(shares, counts))])


def design(data: DataSet, parameters: Parameters, *, is_scaled: bool = True) -> Design:
    """Return labelled graphs arranged in parts, their features centred and scaled.

    Centring preserves digits: a large constant would lose the gradient in rounding errors.
    With ``is_scaled=False`` the scale is 1.
    """
    graphs, labels, shares = data
    parts = arrange(graphs, labels, parameters)
    scale, shift = np.ones(len(parameters)), None
    if is_scaled:
        scale[: parameters.n_edge] = _spread([_edges(part, shares) for part in parts])
    for part in parts:
        if isinstance(part, FeatureStack):
            _settle_stack(part, scale[: parameters.n_edge])
        else:
            shift = _settle_table(part, shares[part.members], scale, is_scaled=is_scaled)
    return Design(parameters, parts, shares, scale, shift)


def _settle_stack(stack: FeatureStack, scale: FloatArray) -> None:
    """Centre and scale the features of stacked graphs, in place."""
    features = stack.features  # our own copy
    n_edges: IntArray | int = stack.size**2
    if stack.forbidden is not None:
        features[stack.forbidden] = 0.0
        n_edges = n_edges - stack.forbidden.sum(axis=(1, 2))[:, None]
    with np.errstate(over="ignore", invalid="ignore"):  # caught at once
        features -= (features.sum(axis=(1, 2)) / np.maximum(n_edges, 1))[:, None, None]
        features /= scale
    _check_finite(features)


def _settle_table(
    table: FeatureTable, shares: FloatArray, scale: FloatArray, *, is_scaled: bool
) -> FloatArray | None:
    """Centre and scale the features of edges and nodes, in place; return the shift."""
    parameters, structure = table.parameters, table.structure
    n_edge, is_any = parameters.n_edge, parameters.is_any
    graph_of_edge = np.zeros_like(table.graph_of_edge) if is_any else table.graph_of_edge
    n_groups = 1 if is_any else structure.n_graphs
    centre = np.zeros(len(parameters))
    with np.errstate(over="ignore", invalid="ignore"):  # caught at once
        counts = np.maximum(np.bincount(graph_of_edge, minlength=n_groups), 1)
        for feature in range(n_edge):
            column = table.features[:, feature]
            means = np.bincount(graph_of_edge, column, n_groups) / counts
            column -= means[graph_of_edge]
            centre[feature] = means[0] if is_any else 0.0
        table.features[:] /= scale[:n_edge]
    _check_finite(table.features)
    ends = np.cumsum([0, parameters.n_left, parameters.n_right])
    for nodes, graph_of, first, last in (
        (table.left, structure.graph_of_left, ends[0], ends[1]),
        (table.right, structure.graph_of_right, ends[1], ends[2]),
    ):
        own = nodes[:, first:last]
        where = slice(n_edge + first, n_edge + last)
        if is_scaled:
            scale[where] = _spread([(own, shares[graph_of])])
        if len(own):
            centre[where] = -own.mean(axis=0)
        own += centre[where]
        own /= scale[where]
        _check_finite(own)
    return 0.5 * centre[:-1] if is_any else None


def _spread(parts: list[tuple[FloatArray, FloatArray]]) -> FloatArray:
    """Return the standard deviation of features, given rows (n, d) and their weights."""
    low = np.min([edges.min(axis=0, initial=np.inf) for edges, _ in parts], axis=0)
    high = np.max([edges.max(axis=0, initial=-np.inf) for edges, _ in parts], axis=0)
    is_constant = ~(high > low)
    # Within [0, 1], and reaching both ends, a feature keeps the digits of its variance.
    low = np.where(is_constant, 0.0, low)
    with np.errstate(over="ignore"):  # caught at once
        span = np.where(is_constant, 1.0, high - low)
    _check_finite(span)
    total, sums, squares = 0.0, np.zeros(len(span)), np.zeros(len(span))
    for edges, weight in parts:
        unit = (edges - low) / span
        total += weight.sum()
        sums += weight @ unit
        squares += weight @ np.square(unit, out=unit)
    if total == 0.0:  # nothing but empty graphs
        return np.ones(len(span))
    variance = squares / total - (sums / total) ** 2
    scale = span * np.sqrt(np.maximum(variance, 0.0))
    return np.where(is_constant | ~(scale > 0.0), 1.0, scale)


def _check_finite(features: FloatArray) -> None:
    """Refuse features (..., d) that exceed float64."""
    is_finite = np.isfinite(features).all(axis=tuple(range(features.ndim - 1)))
    if not is_finite.all():
        raise PrecisionError(
            "features must be small enough for their range and their sum over a graph to "
            f"be finite; those of feature {int(np.argmin(is_finite))} are not. Divide it "
            "by a large number."
        )


def _edges(part: Part, shares: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the features (n, d) of the allowed edges and the weight (n,) of each."""
    own = shares[part.members]
    if isinstance(part, FeatureTable):
        return part.features, own[part.graph_of_edge]
    n_graphs, size, _, n_features = part.features.shape
    edges = part.features.reshape(n_graphs * size * size, n_features)
    weight = np.repeat(own, size * size)
    if part.forbidden is None:
        return edges, weight
    is_allowed = ~part.forbidden.reshape(-1)
    return edges[is_allowed], weight[is_allowed]
