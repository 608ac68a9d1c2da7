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
from typing import Any

import numpy as np

from permatch._shards import HeldShards, Shards
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
    spread: FloatArray  # of every parameter's feature, before it is divided
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
    return _spread(HeldShards([[(np.concatenate(edges), np.repeat(shares, counts))]]))


def design(data: DataSet, parameters: Parameters, *, is_scaled: bool = True) -> Design:
    """Return labelled graphs arranged in parts, their features centred and scaled.

    Centring preserves digits: a large constant would lose the gradient in rounding errors.
    With ``is_scaled=False`` the scale is 1.
    """
    graphs, labels, shares = data
    arranged = arrange(graphs, labels, parameters), shares
    found = find_scaling(HeldShards([arranged]), parameters, is_scaled=is_scaled)
    parts, _ = settle(arranged, found)
    return Design(parameters, parts, shares, found.scale, found.spread, found.shift)


@dataclass(frozen=True, eq=False)
class Scaling:
    """What is taken off every feature, and what it is divided by."""

    parameters: Parameters
    centre: FloatArray  # of every parameter's feature; 0 where graphs are centred by graph
    scale: FloatArray
    spread: FloatArray  # the scale, if features are scaled

    @property
    def shift(self) -> FloatArray | None:
        """What centring has taken off the intercept; see `Design`."""
        parameters = self.parameters
        if not parameters.is_any:
            return None
        sign = np.where(np.arange(len(parameters)) < parameters.n_edge, 0.5, -0.5)
        return (sign * self.centre)[:-1]


#: Labelled graphs in parts, and the shares of the graphs.
Arranged = tuple[list[Part], FloatArray]
#: Rows of features (n, d), and the weight (n,) of each.
Rows = tuple[FloatArray, FloatArray]


def find_scaling(shards: Shards, parameters: Parameters, *, is_scaled: bool) -> Scaling:
    """Return the scaling of the features of all shards, each `Arranged`."""
    n_edge = parameters.n_edge
    spread, centre = np.ones(len(parameters)), np.zeros(len(parameters))
    spread[:n_edge] = _spread(shards.derive(_edge_rows))
    if parameters.is_any:
        sums, n_edges = shards.total(_edge_sums)
        centre[:n_edge] = sums / max(n_edges, 1)
    middle = n_edge + parameters.n_left
    for side, first, last in (
        ("left", n_edge, middle),
        ("right", middle, middle + parameters.n_right),
    ):
        if first == last:
            continue
        rows = shards.derive(_node_rows, side)
        spread[first:last] = _spread(rows)
        sums, n_nodes = rows.total(_row_sums)
        centre[first:last] = sums / max(n_nodes, 1)
    scale = spread if is_scaled else np.ones(len(parameters))
    return Scaling(parameters, centre, scale, spread)


def settle(arranged: Arranged, scaling: Scaling) -> Arranged:
    """Centre and scale the features of graphs, in place."""
    for part in arranged[0]:
        if isinstance(part, FeatureStack):
            _settle_stack(part, scaling.scale[: scaling.parameters.n_edge])
        else:
            _settle_table(part, scaling)
    return arranged


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


def _settle_table(table: FeatureTable, scaling: Scaling) -> None:
    """Centre and scale the features of edges and nodes, in place."""
    parameters, structure = table.parameters, table.structure
    n_edge, scale, centre = parameters.n_edge, scaling.scale, scaling.centre
    graph_of_edge, n_graphs = table.graph_of_edge, structure.n_graphs
    with np.errstate(over="ignore", invalid="ignore"):  # caught at once
        if parameters.is_any:
            table.features[:] -= centre[:n_edge]
        else:
            counts = np.maximum(np.bincount(graph_of_edge, minlength=n_graphs), 1)
            for column in table.features.T:
                means = np.bincount(graph_of_edge, column, n_graphs) / counts
                column -= means[graph_of_edge]
        table.features[:] /= scale[:n_edge]
    _check_finite(table.features)
    middle = n_edge + parameters.n_left
    for nodes, first, last in (
        (table.left, n_edge, middle),
        (table.right, middle, middle + parameters.n_right),
    ):
        own = nodes[:, first - n_edge : last - n_edge]
        own -= centre[first:last]
        own /= scale[first:last]
        _check_finite(own)


def _edge_rows(arranged: Arranged) -> list[Rows]:
    parts, shares = arranged
    return [_edges(part, shares) for part in parts]


def _edge_sums(arranged: Arranged) -> tuple[FloatArray, int]:
    """Return the sums of edge features, and the number of edges, of graphs in a table."""
    if not arranged[0]:
        return np.zeros(()), 0
    (table,) = arranged[0]  # where any node may stay unmatched, nothing is stacked
    features = table.features
    nowhere = np.zeros(len(features), dtype=np.intp)
    with np.errstate(over="ignore", invalid="ignore"):  # caught later
        sums = [np.bincount(nowhere, column, 1)[0] for column in features.T]
    return np.array(sums), len(features)


def _node_rows(arranged: Arranged, side: str) -> list[Rows]:
    """Return the features of nodes that are their own, and the weight of each."""
    parts, shares = arranged
    rows = []
    for part in parts:
        if isinstance(part, FeatureTable):
            n_left, n_right = part.parameters.n_left, part.parameters.n_right
            graph_of = getattr(part.structure, f"graph_of_{side}")
            nodes = part.left[:, :n_left]
            if side == "right":
                nodes = part.right[:, n_left : n_left + n_right]
            rows.append((nodes, shares[part.members][graph_of]))
    return rows


def _row_sums(rows: list[Rows]) -> tuple[FloatArray, int]:
    sums: Any = sum(own.sum(axis=0) for own, _ in rows)
    return sums, sum(len(own) for own, _ in rows)


def _spread(shards: Shards) -> FloatArray:
    """Return the standard deviation of features; a shard has a list of `Rows`."""
    lows, highs = zip(*filter(None, shards.map(_extent)), strict=True)
    low, high = np.min(lows, axis=0), np.max(highs, axis=0)
    is_constant = ~(high > low)
    # Within [0, 1], and reaching both ends, a feature keeps the digits of its variance.
    low = np.where(is_constant, 0.0, low)
    with np.errstate(over="ignore"):  # caught at once
        span = np.where(is_constant, 1.0, high - low)
    _check_finite(span)
    total, sums, squares = shards.total(_moments, low, span)
    if total == 0.0:  # nothing but empty graphs
        return np.ones(len(span))
    variance = squares / total - (sums / total) ** 2
    scale = span * np.sqrt(np.maximum(variance, 0.0))
    return np.where(is_constant | ~(scale > 0.0), 1.0, scale)


def _extent(parts: list[Rows]) -> tuple[FloatArray, FloatArray] | None:
    """Return the smallest and the largest value of every feature, None without rows."""
    if not parts:
        return None
    low = np.min([edges.min(axis=0, initial=np.inf) for edges, _ in parts], axis=0)
    high = np.max([edges.max(axis=0, initial=-np.inf) for edges, _ in parts], axis=0)
    return low, high


def _moments(
    parts: list[Rows], low: FloatArray, span: FloatArray
) -> tuple[float, FloatArray, FloatArray]:
    """Return the weight of all rows, and weighted sums of features and their squares."""
    total, sums, squares = 0.0, np.zeros(len(span)), np.zeros(len(span))
    for edges, weight in parts:
        unit = (edges - low) / span
        total += weight.sum()
        sums += weight @ unit
        squares += weight @ np.square(unit, out=unit)
    return total, sums, squares


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
