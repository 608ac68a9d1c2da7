"""Kernels that may take long on one graph, run in slices: Ctrl-C is heard between two.

Every function does what the compiled one of its name does, to the last bit.  Three ways:

- A count that may be large, of states or sweeps, is gone through in ranges (`run_slices`).
- O(m^3) kernels have an outermost loop around compiled steps.  From m = 400 on that loop is
  left to the interpreter, where it costs next to nothing.
- Draws hand the state of the random numbers on from one slice to the next.
"""

import builtins
from collections.abc import Callable, Iterator
from types import FunctionType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from permatch._parallel import check_stopped, run_slices
from permatch._types import FloatArray, IntArray
from permatch.kernels import (
    assignment,
    bethe,
    bounds,
    nesting,
    particles,
    projection,
    ryser,
    sparsified,
    subset_dp,
)
from permatch.kernels.nesting import LANES, Proposal, Sums

# States or subsets of a first slice.
_FEW = 1 << 16


def fill_forward(weights: FloatArray, forward: FloatArray) -> None:
    """Fill the forward table (2^m) of `subset_dp`."""

    def sweep(first: int, last: int) -> None:
        subset_dp.sweep_forward(weights, forward, first, last)

    run_slices(sweep, len(forward), _FEW)


def infer_by_subsets(weights: FloatArray, marginals: FloatArray) -> float:
    """Fill `marginals` and return the permanent, by `subset_dp`."""
    n_states = 1 << len(weights)
    if n_states <= _FEW:
        return float(subset_dp.infer_one(weights, marginals))
    forward, backward = np.empty(n_states), np.empty(n_states)
    fill_forward(weights, forward)
    marginals[:] = 0.0

    def sweep(first: int, last: int) -> None:
        subset_dp.sweep_back(weights, forward, backward, marginals, first, last)

    run_slices(sweep, n_states, _FEW)
    permanent = float(forward[-1])
    subset_dp.to_marginals(weights, permanent, marginals)
    return permanent


def permanent_by_ryser(weights: FloatArray) -> tuple[float, float]:
    """Return the permanent and an estimate of its relative rounding error."""
    m = len(weights)
    if m == 0:
        return 1.0, 0.0  # the formula leaves out the empty set, here the only one
    columns = np.ascontiguousarray(weights.T)
    row_sums, totals = np.zeros(m), np.zeros(2)

    def add(first: int, last: int) -> None:
        ryser.add_terms(columns, row_sums, totals, first + 1, last + 1)

    run_slices(add, (1 << m) - 1, _FEW)
    value, magnitude = totals.tolist()
    if not value > 0.0:
        return value, np.inf
    return value, m * float(np.finfo(np.float64).eps) * magnitude / value


# Sweeps over one graph that compiled code makes in one go, in entries.
_MOST_ENTRIES = 3e8
# Smaller graphs take well under a second, whatever is done to them.
_LARGE = 400


def pass_messages(
    weights: FloatArray, beliefs: FloatArray, tol: float, max_iter: int, damping: float
) -> tuple[int, float]:
    """Fill `beliefs` (m, m); return sweeps made and the last change of a belief."""
    to_col, to_row = np.ones_like(weights), np.ones_like(weights)
    beliefs[:] = 0.0
    progress = np.array([0.0, np.inf, np.inf, 0.0, damping])

    def sweep(first: int, last: int) -> bool:
        return bethe.sweep_messages(
            weights, beliefs, to_col, to_row, tol, progress, first, last
        )

    run_slices(sweep, max_iter)
    return int(progress[0]), float(progress[1])


def _watched_range(*ends: int) -> Iterator[int]:
    """Count as `range` does, unless this thread is to stop."""
    for k in builtins.range(*ends):
        check_stopped()
        yield k


def in_python(kernel: Any, **inner: Callable[..., Any]) -> Callable[..., Any]:
    """Return a kernel whose own code is interpreted, not that of the kernels it calls.

    Of these, `inner` take the places of compiled ones.
    """
    source = getattr(kernel, "py_func", kernel)  # plain Python where Numba is switched off
    names = {**source.__globals__, "range": _watched_range, **inner}
    return FunctionType(source.__code__, names, source.__name__, source.__defaults__)


def _by_size(kernel: Any, in_python: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that leaves large graphs, the first argument, to `in_python`."""

    def choose(*args: Any) -> Any:
        return (in_python if args[0].shape[-1] >= _LARGE else kernel)(*args)

    return choose


_solve = in_python(assignment.solve)
_reduce_and_match = in_python(assignment.reduce_and_match, solve=_solve)
_reduce_possible = in_python(assignment.reduce_possible, reduce_and_match=_reduce_and_match)
_balance = in_python(assignment.balance)
_sharpen = in_python(bounds.sharpen)
_project = in_python(
    projection.project,
    _sinkhorn=in_python(projection._sinkhorn),
    repair=in_python(projection.repair),
)
_log_upper = in_python(
    bethe.log_upper,
    log_bound=in_python(bounds.log_bound, sharpen=_sharpen),
    balance=_balance,
)
_infer_bethe = in_python(
    bethe.infer_stack,
    reduce_and_match=_reduce_and_match,
    pass_messages=pass_messages,
    project=_project,
    bethe_value=in_python(bethe.bethe_value),
    _upper_end=in_python(
        bethe._upper_end,
        log_upper=_log_upper,
        _shortfall=in_python(bethe._shortfall, solve=_solve),
    ),
)

solve = _by_size(assignment.solve, _solve)
best_matchings = _by_size(
    assignment.best_matchings, in_python(assignment.best_matchings, solve=_solve)
)
reduce_one = _by_size(
    assignment.reduce_one,
    in_python(assignment.reduce_one, reduce_and_match=_reduce_and_match),
)
reduce_possible = _by_size(assignment.reduce_possible, _reduce_possible)
reduce_and_match = _by_size(assignment.reduce_and_match, _reduce_and_match)
reduce_and_match = _by_size(assignment.reduce_and_match, _reduce_and_match)
balance = _by_size(assignment.balance, _balance)
scale_stack = _by_size(
    assignment.scale_stack,
    in_python(assignment.scale_stack, reduce_possible=_reduce_possible, balance=_balance),
)
sharpen = _by_size(bounds.sharpen, _sharpen)
log_minor_bounds = _by_size(bounds.log_minor_bounds, in_python(bounds.log_minor_bounds))
fill_extended = _by_size(bounds.fill_extended, in_python(bounds.fill_extended))
fill_regrets = _by_size(sparsified.fill_regrets, in_python(sparsified.fill_regrets))
fill_transfer = _by_size(sparsified.fill_transfer, in_python(sparsified.fill_transfer))
log_growth = _by_size(sparsified.log_growth, in_python(sparsified.log_growth))


def infer_bethe(scores: FloatArray, tol: float, max_iter: int, *rest: Any) -> None:
    """Answer graphs of a stack; see `bethe.infer_stack`."""
    size = scores.shape[-1]
    is_long = size >= _LARGE or size * size * max_iter > _MOST_ENTRIES
    (_infer_bethe if is_long else bethe.infer_stack)(scores, tol, max_iter, *rest)


State = NDArray[Any]
# Multiplications of a first slice.
_FEW_STEPS = 1e8
_fill_head = in_python(nesting.fill_head)


def fill_head(weights: FloatArray, tail_bounds: FloatArray, head: FloatArray) -> float:
    """Fill the head table; return the log of its last entry."""
    is_long = head.size * weights.shape[1] > _FEW_STEPS
    return (_fill_head if is_long else nesting.fill_head)(weights, tail_bounds, head)


def _few_blocks(proposal: Proposal) -> int:
    """Return how many blocks of draws are over in no time."""
    n, k = proposal.tail.shape
    return int(_FEW_STEPS / (LANES * (n * n + k * 2.0**k + 1.0))) + 1


def add_chunk(proposal: Proposal, state: State, n_draws: int, sums: Sums) -> None:
    """Add `n_draws` draws, a multiple of `LANES`, to the sums."""

    def add(first: int, last: int) -> None:
        nesting.add_chunk(proposal, state, (last - first) * LANES, sums)

    run_slices(add, n_draws // LANES, _few_blocks(proposal))


def weigh_chunk(proposal: Proposal, state: State, log_weights: FloatArray) -> None:
    """Fill `log_weights`, a multiple of `LANES` of them, with log X of draws."""

    def weigh(first: int, last: int) -> None:
        particles.weigh_chunk(proposal, state, log_weights[first * LANES : last * LANES])

    run_slices(weigh, len(log_weights) // LANES, _few_blocks(proposal))


def accept_chunk(
    proposal: Proposal, state: State, n_draws: int, matchings: IntArray
) -> int:
    """Draw `n_draws` times; fill `matchings` with what is kept and return how many."""
    n_kept = 0

    def accept(first: int, last: int) -> None:
        nonlocal n_kept
        n_kept += particles.accept_chunk(
            proposal, state, (last - first) * LANES, matchings[n_kept:]
        )

    run_slices(accept, n_draws // LANES, _few_blocks(proposal))
    return n_kept


def run_filter(proposal: Proposal, state: State, n_particles: int, sums: Sums) -> int:
    """Run one filter of `n_particles`, a multiple of `LANES`; add its end to the sums.

    Return how often particles were drawn anew.
    """
    some = particles.start_particles(proposal, n_particles)
    n_blocks, few = len(some.logs), _few_blocks(proposal)
    run_slices(
        lambda first, last: particles.take_heads(proposal, state, some, first, last),
        n_blocks,
        few,
    )
    run_slices(
        lambda first, last: particles.take_columns(proposal, state, some, first, last),
        n_blocks * len(proposal.ratios),
        few,
    )
    run_slices(
        lambda first, last: particles.add_particles(proposal, some, sums, first, last),
        n_blocks,
        few,
    )
    return int(some.counts[1])
