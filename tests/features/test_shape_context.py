"""Shape contexts against the definition, and what must not change them."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from permatch.errors import InvalidOptionError, InvalidPointsError
from permatch.features import shape_context


def from_the_definition(points, context, n_radial, n_angular, inner, outer, turns=None):
    """Count point by point."""
    distances = [math.dist(p, q) for p in context for q in context]
    scale = sum(distances) / (len(context) * (len(context) - 1))
    edges = [inner * (outer / inner) ** (k / (n_radial - 1)) for k in range(n_radial)]
    histograms = np.zeros((len(points), n_radial, n_angular))
    for i, p in enumerate(points):
        n_others = 0
        for q in context:
            radius = math.dist(p, q) / scale
            if radius == 0:
                continue
            n_others += 1
            angle = math.atan2(q[1] - p[1], q[0] - p[0]) - (
                0 if turns is None else turns[i]
            )
            sector = math.floor(angle % (2 * math.pi) / (2 * math.pi) * n_angular)
            ring = sum(radius >= edge for edge in edges)
            if ring < n_radial:
                histograms[i, ring, sector] += 1
        histograms[i] /= n_others
    return histograms.reshape(len(points), -1)


@given(
    st.integers(0, 10**6), st.integers(1, 8), st.integers(2, 30), st.integers(2, 6),
    st.integers(1, 12),
)  # fmt: skip
def test_agrees_with_the_definition(seed, n_points, n_context, n_radial, n_angular):
    rng = np.random.default_rng(seed)
    points, context = rng.normal(size=(n_points, 2)), rng.normal(size=(n_context, 2))
    found = shape_context(points, context, n_radial=n_radial, n_angular=n_angular)
    expected = from_the_definition(points, context, n_radial, n_angular, 0.125, 2.0)
    np.testing.assert_allclose(found, expected, atol=1e-15)


def test_none_counts_the_points_themselves_but_not_the_point_itself(rng):
    points = rng.normal(size=(7, 2))
    found = shape_context(points, outer=100.0)
    np.testing.assert_array_equal(found, shape_context(points, points, outer=100.0))
    np.testing.assert_allclose(found.sum(axis=1), 1.0)
    assert found.shape == (7, 60)
    np.testing.assert_allclose(found * 6, np.rint(found * 6), atol=1e-12)


def test_moving_and_enlarging_change_nothing(rng):
    points, context = rng.normal(size=(5, 2)), rng.normal(size=(40, 2))
    np.testing.assert_array_equal(
        shape_context(points, context),
        shape_context(32.0 * points + [8.0, -4.0], 32.0 * context + [8.0, -4.0]),
    )


@pytest.mark.parametrize("has_tangents", [True, False])
def test_turning_changes_nothing_if_so_wished(rng, has_tangents):
    angles = np.sort(rng.uniform(0, 2 * np.pi, 30))
    outline = np.column_stack([3 * np.cos(angles), np.sin(angles) + 0.3 * np.cos(angles)])
    turn = np.array([[np.cos(0.7), np.sin(0.7)], [-np.sin(0.7), np.cos(0.7)]])
    where = [2, 9, 21]
    along = np.roll(outline, -1, axis=0) - np.roll(outline, 1, axis=0)

    def describe(shape, directions, **options):
        if has_tangents and options:
            options["tangents"] = directions[where]
        return shape_context(shape[where], shape, **options)

    still = describe(outline, along, rotation_invariant=True)
    turned = describe(outline @ turn, along @ turn, rotation_invariant=True)
    np.testing.assert_allclose(still, turned, atol=1e-12)
    assert (
        np.abs(describe(outline, along) - describe(outline @ turn, along @ turn)).max() > 0
    )
    turns = np.arctan2(along[where, 1], along[where, 0])
    expected = from_the_definition(outline[where], outline, 5, 12, 0.125, 2.0, turns)
    np.testing.assert_allclose(still, expected, atol=1e-15)


def test_scale_can_be_given(rng):
    points = rng.normal(size=(6, 2))
    far = shape_context(points, scale=1e9)
    np.testing.assert_allclose(far[:, :12].sum(axis=1), 1.0)  # all within the inner ring
    assert shape_context(points, scale=1e-9).sum() == 0.0  # all beyond the outer one


def test_a_single_ring_reaches_to_outer():
    found = shape_context([[0.0, 0.0]], [[1.0, 0.0], [3.0, 0.0]], n_radial=1, scale=1.0)
    assert found.sum() == 0.5


def test_blocks_change_nothing(rng, monkeypatch):
    points, context = rng.normal(size=(9, 2)), rng.normal(size=(20, 2))
    options = {"rotation_invariant": True}
    whole = shape_context(points, context, **options)
    monkeypatch.setitem(shape_context.__globals__, "_BLOCK", 50)
    np.testing.assert_allclose(shape_context(points, context, **options), whole, atol=1e-15)


@pytest.mark.parametrize(
    ("points", "options", "message"),
    [
        ([1.0, 2.0], {}, r"shape \(n, 2\).*got \(2,\)"),
        (np.zeros((0, 2)), {}, r"got \(0, 2\)"),
        ([["a", "b"]], {}, "must be numbers"),
        ([[0.0, 1.0], [np.nan, 0.0]], {}, r"point 1 is \[nan, 0.0\]"),
        ([[1.0, 1.0], [1.0, 1.0]], {}, "distinct context points"),
        ([[1.0, 1.0]], {}, "got 1 context points"),
        ([[0.0, 0.0], [1.0, 0.0]], {"scale": np.nan}, "scale nan"),
        (
            [[0.0, 0.0], [1.0, 0.0], [0.0, 1.0]],
            {"rotation_invariant": True, "tangents": [[1.0, 0.0]]},
            "a tangent at each of the 3 points",
        ),
        (
            [[0.0, 0.0], [1.0, 0.0]],
            {"rotation_invariant": True},
            "length above 0; got 0 such tangents",
        ),
    ],
)
def test_bad_points_are_refused(points, options, message):
    with pytest.raises(InvalidPointsError, match=message):
        shape_context(points, **options)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"inner": 2.0, "outer": 1.0}, "0 < inner < outer"),
        ({"inner": 0.0}, "0 < inner < outer"),
        ({"n_radial": 0}, "n_radial must be a whole number of at least 1"),
        ({"n_angular": 2.5}, "n_angular must be a whole number"),
        ({"tangents": [[1.0, 0.0]] * 2}, "need rotation_invariant=True"),
    ],
)
def test_bad_options_are_refused(options, message):
    with pytest.raises(InvalidOptionError, match=message):
        shape_context([[0.0, 0.0], [1.0, 0.0]], **options)
