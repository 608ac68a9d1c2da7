"""The tables, strategies and oracles that the tests share.

A new exact engine adds one line to `ENGINES`, any other one to `APPROXIMATE`, and inherits
every law and every accuracy test.
"""

import importlib.util
import re
import sys
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import mpmath
import numpy as np
from hypothesis import strategies as st

import permatch as pm
from permatch.cuda.driver import available
from permatch.inference import AbstractEngine

# What the engines promise: absolute error of the log-partition and of a marginal.
LOG_PARTITION_TOL = 1e-10
MARGINAL_TOL = 1e-11


@dataclass(frozen=True)
class EngineCase:
    """An engine, the largest graphs worth giving it in a test, and one that draws little.

    Without the compiler a draw takes a millisecond: `quick` is for tests without it.
    """

    engine: AbstractEngine
    largest: int = 20
    quick: AbstractEngine | None = None

    @property
    def has_marginals(self):
        return self.engine.has_marginals

    def __str__(self):
        return self.engine.name


ENGINES = [
    EngineCase(pm.AutoEngine()),
    EngineCase(pm.SmallBatch(), largest=8),
    EngineCase(pm.Glynn()),
    EngineCase(pm.SubsetDP()),
    EngineCase(pm.Frontier()),
    EngineCase(pm.Ryser()),
    EngineCase(pm.Enumeration(), largest=9),
]
# Exact engines that need a GPU: where there is one, they inherit all tests too.
ON_GPU = [EngineCase(pm.GlynnCuda())]
if available() is None:
    ENGINES += ON_GPU
ENGINES_WITH_MARGINALS = [case for case in ENGINES if case.has_marginals]

# Engines that are not exact, with options that make them quick and leave work for them.
APPROXIMATE = [
    EngineCase(pm.AutoEngine(exact_size=0, tol=0.05, budget=None)),
    EngineCase(pm.Sparsified()),
    EngineCase(pm.Bethe()),
    EngineCase(pm.Nesting(tol=0.05, tail=2), quick=pm.Nesting(n_samples=32, tail=2)),
    EngineCase(pm.SwapChain(n_sweeps=1500), quick=pm.SwapChain(n_sweeps=16, n_chains=1)),
    EngineCase(pm.HuberLaw(n_samples=500), quick=pm.HuberLaw(n_samples=5)),
]


# Engines that need nodes that may stay unmatched.
PARTIAL_ONLY = [EngineCase(pm.PathTree())]


# Engines that solve sparse, rectangular and partial problems exactly.
PARTIAL = [
    EngineCase(pm.AutoEngine()),
    EngineCase(pm.Enumeration(), largest=5),
    EngineCase(pm.Frontier()),
]


# Engines that are not exact on problems whose nodes may all stay unmatched, and how far off
# they may be where they report no error.
PARTIAL_APPROXIMATE = [
    (pm.AutoEngine(exact_size=0, tol=0.05, budget=None), 0.0),
    (pm.Sparsified(tol=0.05), 0.0),
    (pm.PathTree(tol=0.05), 0.0),
    (pm.Bethe(), 0.2),
    (pm.Nesting(tol=0.05), 0.0),
    (pm.SwapChain(n_sweeps=1500), 0.0),
]


def random_scores(rng, size, spread=1.0, forbidden=0.0):
    """Normal scores of the given spread, a share of the edges forbidden, yet feasible."""
    scores = spread * rng.normal(size=(size, size))
    is_forbidden = rng.random((size, size)) < forbidden
    is_forbidden[np.arange(size), rng.permutation(size)] = False
    scores[is_forbidden] = -np.inf
    return scores


@st.composite
def score_matrices(draw, min_size=0, max_size=6, largest=300.0):
    """Score matrices, some with forbidden edges, all with a perfect matching."""
    size = draw(st.integers(min_size, max_size))
    scale = draw(st.sampled_from([0.0, 1.0, 20.0, largest]))
    unit = st.floats(-1.0, 1.0, allow_subnormal=False)
    values = draw(st.lists(unit, min_size=size * size, max_size=size * size))
    scores = scale * np.array(values, dtype=float).reshape(size, size)
    share = draw(st.sampled_from([0.0, 0.3, 0.8]))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    is_forbidden = rng.random((size, size)) < share
    is_forbidden[np.arange(size), rng.permutation(size)] = False
    return np.where(is_forbidden, -np.inf, scores)


@st.composite
def partial_problems(draw, max_size=5, largest=300.0):
    """Scores (n, k), some forbidden, and scores of staying unmatched; never infeasible."""
    n, k = draw(st.integers(0, max_size)), draw(st.integers(0, max_size))
    seed, share = draw(st.integers(0, 2**32 - 1)), draw(st.sampled_from([0.0, 0.4, 0.8]))
    spread = draw(st.sampled_from([0.0, 1.0, 20.0, largest]))
    must = draw(st.sampled_from([0.0, 0.5, 1.0]))
    return random_problem(np.random.default_rng(seed), n, k, spread, share, must)


def random_problem(rng, n, k, spread=1.0, forbidden=0.3, must=0.0):
    """Scores (n, k) and unmatched scores; a share `must` of matchable nodes must match."""
    scores = spread * rng.normal(size=(n, k))
    scores[rng.random((n, k)) < forbidden] = -np.inf
    unmatched = [spread * rng.normal(size=n), spread * rng.normal(size=k)]
    # Nodes of a planted matching may be told that they must be matched.
    rows, cols = rng.permutation(n)[: min(n, k)], rng.permutation(k)[: min(n, k)]
    for i, j in zip(rows, cols, strict=True):
        if scores[i, j] > -np.inf:
            for values, node in zip(unmatched, (i, j), strict=True):
                if rng.random() < must:
                    values[node] = -np.inf
    return scores, *unmatched


def exact_partial(scores, unmatched_left, unmatched_right, digits=50):
    """Log-partition, marginals and unmatched probabilities over all partial matchings."""
    n, k = scores.shape
    with mpmath.workdps(digits):

        def weight(score):
            return (
                mpmath.exp(mpmath.mpf(float(score))) if score > -np.inf else mpmath.mpf(0)
            )

        flow = [[mpmath.mpf(0)] * (k + 1) for _ in range(n)]
        free = [mpmath.mpf(0)] * k
        total = mpmath.mpf(0)

        def visit(i, taken, product, chosen):
            nonlocal total
            if not product:
                return
            if i < n:
                visit(i + 1, taken, product * weight(unmatched_left[i]), [*chosen, k])
                for j in range(k):
                    if not taken >> j & 1:
                        more = product * weight(scores[i, j])
                        visit(i + 1, taken | 1 << j, more, [*chosen, j])
                return
            for j in range(k):
                if not taken >> j & 1:
                    product *= weight(unmatched_right[j])
            total += product
            for row, j in enumerate(chosen):
                flow[row][j] += product
            for j in range(k):
                if not taken >> j & 1:
                    free[j] += product

        visit(0, 0, mpmath.mpf(1), [])
        table = np.array([[float(x / total) for x in row] for row in flow])
        table = table.reshape(n, k + 1)
        log_partition = mpmath.log(total)
        return (
            log_partition,
            table[:, :k],
            table[:, k],
            np.array([float(x / total) for x in free]),
        )


@cache
def _subsets_by_count(size):
    return sorted(range(1 << size), key=int.bit_count)


def exact_answer(scores, digits=50):
    """Log-partition and marginals in `digits`-digit arithmetic, by the subset recursion."""
    size = len(scores)
    full = (1 << size) - 1
    with mpmath.workdps(digits):
        weights = [
            [
                mpmath.exp(mpmath.mpf(float(s))) if s > -np.inf else mpmath.mpf(0)
                for s in row
            ]
            for row in scores
        ]
        forward = [mpmath.mpf(0)] * (full + 1)
        backward = [mpmath.mpf(0)] * (full + 1)
        forward[0] = backward[full] = mpmath.mpf(1)
        order = _subsets_by_count(size)
        flow = [[mpmath.mpf(0)] * size for _ in range(size)]
        for used in order[:-1]:
            row = used.bit_count()
            for col in range(size):
                if not used >> col & 1 and weights[row][col]:
                    forward[used | 1 << col] += weights[row][col] * forward[used]
        for used in reversed(order[:-1]):
            row = used.bit_count()
            for col in range(size):
                if not used >> col & 1 and weights[row][col]:
                    after = weights[row][col] * backward[used | 1 << col]
                    backward[used] += after
                    flow[row][col] += forward[used] * after
        permanent = forward[full]
        marginals = [[float(cell / permanent) for cell in row] for row in flow]
        log_partition = mpmath.log(permanent)
        return log_partition, np.array(marginals).reshape(size, size)


def log_partition_error(found, exact):
    """Absolute error of a float64 log-partition against a multi-precision one."""
    with mpmath.workdps(50):
        return float(abs(mpmath.mpf(float(found)) - exact))


# A measured number in prose: with a decimal point, a percentage, a time or a factor.
MEASURED = re.compile(r"\d+\.\d+|\d+ ?%|\b\d+ ?(?:[mµn]?s|seconds?|minutes?|times)\b")

DOCS = Path(__file__).resolve().parents[1] / "docs"


def extension(name):
    """Load a module of the site's own extensions that needs no Sphinx."""
    spec = importlib.util.spec_from_file_location(name, DOCS / "_ext" / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module
