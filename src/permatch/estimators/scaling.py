"""Features divided by their spread, so that `alpha` does not depend on units.

    scaled feature = feature / scale        coef = scaled coef / scale

The penalty acts on the scaled coefficients.
"""

import numpy as np

from permatch._types import BoolArray, FloatArray
from permatch.errors import PrecisionError
from permatch.graphs import BipartiteGraph
from permatch.objectives import FeatureStack, stack_graphs


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
    return _scale_of(stack_graphs(graphs), weights)


def scaled_stacks(
    graphs: list[BipartiteGraph], weights: FloatArray, *, is_scaled: bool = True
) -> tuple[list[FeatureStack], FloatArray]:
    """Return graphs stacked by size, their features centred and scaled, and the scale.

    Centring preserves digits: a constant added to a feature on all edges of a graph changes
    all its matchings alike, but a large one would lose the gradient in rounding errors.
    With ``is_scaled=False`` the scale is 1.
    """
    stacks = stack_graphs(graphs)
    n_features = graphs[0].n_features
    scale = _scale_of(stacks, weights) if is_scaled else np.ones(n_features)
    for stack in stacks:
        features = stack.features  # our own copy
        n_edges = stack.size**2
        if stack.forbidden is not None:
            features[stack.forbidden] = 0.0
            n_edges -= stack.forbidden.sum(axis=(1, 2))[:, None]
        with np.errstate(over="ignore", invalid="ignore"):  # caught at once
            features -= (features.sum(axis=(1, 2)) / np.maximum(n_edges, 1))[:, None, None]
            features /= scale
        _check_finite(np.isfinite(features).all(axis=(0, 1, 2)))
    return stacks, scale


def _scale_of(stacks: list[FeatureStack], weights: FloatArray | None) -> FloatArray:
    parts = [_allowed_edges(stack, weights) for stack in stacks]
    low = np.min([edges.min(axis=0, initial=np.inf) for edges, _ in parts], axis=0)
    high = np.max([edges.max(axis=0, initial=-np.inf) for edges, _ in parts], axis=0)
    is_constant = ~(high > low)
    # Within [0, 1], and reaching both ends, a feature keeps the digits of its variance.
    low = np.where(is_constant, 0.0, low)
    with np.errstate(over="ignore"):  # caught at once
        span = np.where(is_constant, 1.0, high - low)
    _check_finite(np.isfinite(span))
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


def _check_finite(is_finite: BoolArray) -> None:
    """Refuse features that exceed float64, as the array (d,) tells."""
    if not is_finite.all():
        raise PrecisionError(
            "features must be small enough for their range and their sum over a graph to "
            f"be finite; those of feature {int(np.argmin(is_finite))} are not. Divide it "
            "by a large number."
        )


def _allowed_edges(
    stack: FeatureStack, weights: FloatArray | None
) -> tuple[FloatArray, FloatArray]:
    """Return the features (n, d) of the allowed edges and the weight (n,) of each."""
    n_graphs, size, _, n_features = stack.features.shape
    edges = stack.features.reshape(n_graphs * size * size, n_features)
    weight = np.ones(n_graphs) if weights is None else weights[stack.members]
    weight = np.repeat(weight, size * size)
    if stack.forbidden is None:
        return edges, weight
    is_allowed = ~stack.forbidden.reshape(-1)
    return edges[is_allowed], weight[is_allowed]
