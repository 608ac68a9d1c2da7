"""Draws that may take long, of large graphs or of many particles, run in slices.

Every function does what the compiled one does in one go, to the last bit: the state of the
random numbers goes from one slice to the next.
"""

from typing import Any

from numpy.typing import NDArray

from permatch._parallel import run_slices
from permatch._types import FloatArray, IntArray
from permatch.kernels import nesting, particles
from permatch.kernels.lanes import LANES
from permatch.kernels.nesting import Proposal, Sums
from permatch.kernels.sliced import in_python

State = NDArray[Any]
# Multiplications of a first slice.
_FEW = 1e8
_fill_head = in_python(nesting.fill_head)


def fill_head(weights: FloatArray, tail_bounds: FloatArray, head: FloatArray) -> float:
    """Fill the head table; return the log of its last entry."""
    is_long = head.size * weights.shape[1] > _FEW
    return (_fill_head if is_long else nesting.fill_head)(weights, tail_bounds, head)


def _few_blocks(proposal: Proposal) -> int:
    """Return how many blocks of draws are over in no time."""
    n, k = proposal.tail.shape
    return int(_FEW / (LANES * (n * n + k * 2.0**k + 1.0))) + 1


def add_chunk(proposal: Proposal, state: State, n_draws: int, sums: Sums) -> None:
    """Add `n_draws` draws, a multiple of `LANES`, to the sums."""

    def add(first: int, last: int) -> None:
        nesting.add_chunk(proposal, state, (last - first) * LANES, sums)

    run_slices(add, n_draws // LANES, _few_blocks(proposal))


def weigh_chunk(proposal: Proposal, state: State, log_weights: FloatArray) -> None:
    """Fill `log_weights`, a multiple of `LANES` of them, with log X of draws."""

    def weigh(first: int, last: int) -> None:
        nesting.weigh_chunk(proposal, state, log_weights[first * LANES : last * LANES])

    run_slices(weigh, len(log_weights) // LANES, _few_blocks(proposal))


def accept_chunk(
    proposal: Proposal, state: State, n_draws: int, matchings: IntArray
) -> int:
    """Draw `n_draws` times; fill `matchings` with what is kept and return how many."""
    n_kept = 0

    def accept(first: int, last: int) -> None:
        nonlocal n_kept
        n_kept += nesting.accept_chunk(
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
