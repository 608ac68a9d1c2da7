"""Ten thousand random inputs, many of them bad: a documented error or a right answer."""

import numpy as np
import pytest

import permatch as pm
from permatch.errors import PermatchError
from tests.helpers import ENGINES_WITH_MARGINALS, MARGINAL_TOL

# Quick on large graphs, where it is approximate.
AUTO = pm.AutoEngine(tol=0.3, budget=0.05, max_size=36)

# Enumeration is what the others are compared with; 9! matchings would take too long.
FUZZED = [
    AUTO if case.engine.name == "auto" else case.engine
    for case in ENGINES_WITH_MARGINALS
    if case.engine.name != "enumeration"
]

N_INPUTS = 10_000

DTYPES = [
    np.float64,
    np.float32,
    np.float16,
    np.longdouble,
    np.int8,
    np.int64,
    np.uint64,
    np.bool_,
    np.complex128,
    object,
    "U3",
    "S2",
    "M8[s]",
    "m8[ns]",
]
SPECIAL = [
    0.0,
    -0.0,
    1.0,
    -1.0,
    1e-320,
    1e3,
    -1e3,
    1e17,
    -1e17,
    1e150,
    -1e150,
    1e299,
    -1e299,
    1e300,
    -1e300,
    1.1e300,
    1.7e308,
    -1.7e308,
    np.inf,
    -np.inf,
    -np.inf,
    -np.inf,
    np.nan,
]

ODDITIES = [
    None,
    {},
    "text",
    b"bytes",
    3.5,
    range(4),
    iter([1, 2]),
    object(),
    set(),
    [[]],
    [[[]]],
    (),
    ((),),
    [None],
    [[None]],
    np.float64(2.0),
    [[1, "a"], [2, 3]],
    {"a": 1},
    lambda: 0,
    [np.zeros((2, 2)), None],
]


def random_shape(rng):
    kind = rng.integers(10)
    if kind < 6:
        m = int(rng.choice([0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 12]))
        return (m, m)
    if kind == 6:
        m = int(rng.integers(0, 5))
        return (int(rng.integers(0, 6)), m, m)
    if kind == 7:
        return (int(rng.integers(31, 200)),) * 2
    return tuple(int(n) for n in rng.integers(0, 5, size=rng.integers(0, 5)))


def random_values(rng, shape):
    values = rng.normal(size=shape) * 10.0 ** rng.integers(-3, 4)
    style = rng.integers(6)
    if style <= 2:
        share = rng.choice([0.01, 0.1, 0.6])
        chosen = SPECIAL if style == 0 else [SPECIAL[rng.integers(len(SPECIAL))], -np.inf]
        is_special = rng.random(shape) < share
        values = np.where(is_special, rng.choice(chosen, size=shape), values)
    elif style == 3:
        values = np.round(values)
    elif style == 4:
        values = np.full(shape, rng.choice(SPECIAL))
    return values


def random_input(rng):
    shape = random_shape(rng)
    values = random_values(rng, shape)
    form = rng.integers(20)
    with np.errstate(all="ignore"):
        if form < 12:
            return values
        if form < 15:
            dtype = DTYPES[rng.integers(len(DTYPES))]
            if dtype in ("M8[s]", "m8[ns]"):
                return (
                    np.nan_to_num(values, posinf=0, neginf=0)
                    .clip(-9, 9)
                    .astype("i8")
                    .astype(dtype)
                )
            return values.astype(dtype)
        if form == 15:
            return values.tolist()
        if form == 16:
            return [
                random_values(rng, random_shape(rng)) for _ in range(rng.integers(0, 4))
            ]
        if form == 17:
            return ODDITIES[rng.integers(len(ODDITIES))]
        if form == 18:
            return values[..., ::-1] if values.ndim else values
        return np.ma.masked_invalid(values)


def assert_right(scores, result):
    """Check shapes, finiteness and, where it is quick, the value itself."""
    log_partition = np.asarray(result.log_partition)
    assert np.isfinite(log_partition).all()
    laid = result.marginals, result.unmatched_left, result.unmatched_right
    graphs = [scores] if log_partition.ndim == 0 else scores
    if log_partition.ndim == 0:
        laid = [[values] for values in laid]
    assert len(graphs) == log_partition.size
    for graph, marginals, left, right, value in zip(
        graphs, *laid, log_partition.ravel(), strict=True
    ):
        graph = np.asarray(graph, dtype=np.float64)
        assert graph.shape == marginals.shape
        assert np.isfinite(marginals).all()
        atol = 1e-9 if result.is_exact else 1e-7
        np.testing.assert_allclose(marginals.sum(axis=0) + right, 1, rtol=0, atol=atol)
        np.testing.assert_allclose(marginals.sum(axis=1) + left, 1, rtol=0, atol=atol)
        if max(graph.shape) <= 6:
            expected = pm.Enumeration().infer(graph)
            largest = np.abs(graph[np.isfinite(graph)]).max(initial=0.0)
            # Sums of scores this large are not known any better.
            rounding = max(graph.shape) * np.spacing(largest)
            assert abs(value - expected.log_partition) <= 1e-10 + rounding
            if rounding < 1e-11:
                np.testing.assert_allclose(
                    marginals,
                    expected.marginals,
                    rtol=0,
                    atol=MARGINAL_TOL + 100 * rounding,
                )


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_random_inputs():
    rng = np.random.default_rng(11)
    n_answered = n_refused = 0
    for _ in range(N_INPUTS):
        scores = random_input(rng)
        try:
            result = pm.infer(scores, FUZZED[rng.integers(len(FUZZED))])
        except PermatchError:
            n_refused += 1
        else:
            assert_right(scores, result)
            n_answered += 1
    # Both sides are really exercised.
    assert n_answered > N_INPUTS // 10
    assert n_refused > N_INPUTS // 10


@pytest.mark.filterwarnings("ignore")
def test_random_inputs_of_a_distribution():
    rng = np.random.default_rng(12)
    for _ in range(N_INPUTS // 30):
        scores = random_input(rng)
        try:
            d = pm.MatchingDistribution(scores, AUTO)
            values = [d.log_partition, d.entropy, d.log_prob(d.mode()), d.kl(d)]
            drawn = d.sample(2, rng=0)
            best = d.k_best(2)
        except PermatchError:
            continue
        assert np.isfinite(values).all()
        assert np.isfinite(best.scores).all()
        for matching in (*drawn, *best.matchings, d.mode(), d.bayes_matching()):
            matched = matching[matching >= 0]
            assert len(set(matched)) == len(matched) == min(np.shape(scores))
            assert d.log_prob(matching) <= 0
