"""Coins on the weights of draws turn them into exact samples."""

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from permatch._types import FloatArray, IntArray
from permatch._validation import enough_memory
from permatch.errors import PrecisionError
from permatch.inference._options import reduce_stack
from permatch.inference.base import Job
from permatch.inference.sampling.weighted import (
    Plan,
    balanced_weights,
    empty_sums,
    log_mean,
    make_plan,
)
from permatch.kernels.bounds import extended_steps
from permatch.kernels.intrinsics import seed_state
from permatch.kernels.sliced import accept_chunk, add_chunk, sharpen

# Draws of one task; fixed, so that answers do not depend on the number of threads.
_CHUNK = 2048
# A round never draws more than so many chunks, to bound memory.
_CHUNKS_PER_ROUND = 256
_DEPTHS = (8, 12, 16)
# Seconds per entry of a head table, per multiplication of a draw and per edge sharpened.
_SECONDS_PER_ENTRY = 1e-9
_SECONDS_PER_STEP = 1e-9
_SECONDS_PER_SWEEP = 1e-5
# Sharpening works on the bound without a head; with a deep head it gains nothing.
_SHARPEN_SWEEPS = 60
_DEEPEST_SHARPENED = 8


def tightest_plan(weights: FloatArray, offset: float, depth: int, tail: int) -> Plan:
    """Return the plan of smallest bound: either orientation, head at either end."""
    trial_depth = min(depth, _DEEPEST_SHARPENED)
    best: tuple[float, FloatArray, float, dict[str, bool]] | None = None
    for is_transposed in (False, True):
        for scaled, shift in _scalings(weights, offset, is_transposed, depth):
            for head_from_end in (False, True) if depth else (False,):
                options = {"is_transposed": is_transposed, "head_from_end": head_from_end}
                plan = make_plan(scaled, shift, depth=trial_depth, tail=tail, **options)
                if best is None or plan.log_bound < best[0]:
                    best = plan.log_bound, scaled, shift, options
    assert best is not None
    _, scaled, shift, options = best
    return make_plan(scaled, shift, depth=depth, tail=tail, **options)


def _scalings(
    weights: FloatArray, offset: float, is_transposed: bool, depth: int
) -> Iterator[tuple[FloatArray, float]]:
    """Yield weights as they are and, unless the head is deep, with columns sharpened."""
    yield weights, offset
    if depth <= _DEEPEST_SHARPENED and weights.size:
        # The columns that are drawn are those of the transpose if the plan is transposed.
        scaled, shift = sharpened_columns(weights.T if is_transposed else weights)
        yield np.ascontiguousarray(scaled.T) if is_transposed else scaled, offset + shift


def sharpened_columns(weights: FloatArray) -> tuple[FloatArray, float]:
    """Return weights with columns scaled for a smaller bound, and the log divided out."""
    scaled = np.array(weights, order="C")
    sharpen(scaled, extended_steps(len(scaled)), _SHARPEN_SWEEPS)
    columns = np.arange(len(weights))
    largest = weights.argmax(axis=0)
    factors = scaled[largest, columns] / weights[largest, columns]
    return scaled, -float(np.log(factors).sum())


def deepen(
    plan: Plan,
    weights: np.ndarray,
    offset: float,
    log_partition: float,
    n_wanted: float,
    tail: int,
) -> Plan:
    """Return a plan of smaller bound than `plan`, if the draws it saves pay for its head.

    ``n_wanted exp(log_bound - log_partition)`` draws are to be made; a deeper head makes
    them fewer and takes longer to build.
    """
    size = len(weights)
    for depth in _DEPTHS:
        log_draws = math.log(n_wanted) + plan.log_bound - log_partition
        seconds = math.exp(min(log_draws, 50.0)) * size * size * _SECONDS_PER_STEP
        building = size * (
            depth * 2.0**depth * _SECONDS_PER_ENTRY + size * _SECONDS_PER_SWEEP
        )
        if depth > size or seconds < 2.0 * building:
            break
        candidate = tightest_plan(weights, offset, depth, tail)
        if candidate.log_bound < plan.log_bound:
            plan = candidate
    return plan


@dataclass(frozen=True, eq=False)
class NestingTable:
    """Exact independent samples by coins on weighted draws, past the sizes of `SubsetDP`.

    A draw of weight X is kept with probability X; what is kept is distributed exactly.  The
    share of draws kept, Z / U, falls with the size and the spread of the scores: about one
    in 10 at m = 50 for weights uniform in [0, 1], one in 200 for scores N(0, 1).

    Attributes
    ----------
    plan : Plan
        What is drawn from, and its bound U.

    Examples
    --------
    >>> import numpy as np
    >>> table = NestingTable.build(np.eye(30))
    >>> table.sample(4, np.random.default_rng(0)).shape
    (4, 30)
    """

    plan: Plan

    @classmethod
    def build(
        cls, scores: np.ndarray, depth: int | None = None, tail: int = 8
    ) -> "NestingTable":
        """Build the tables for one checked, feasible score matrix.

        Parameters
        ----------
        scores : ndarray of shape (m, m)
            Log-weight of each edge; ``-inf`` forbids an edge.
        depth : int, optional
            Columns drawn without loss, at a cost of ``m 2^depth``; None chooses.
        tail : int
            Columns drawn at the end from an exact small table.

        Returns
        -------
        NestingTable
            Ready to sample from.
        """
        reduced, best = reduce_stack(scores[None], np.zeros(1, dtype=np.intp))
        weights, offset = balanced_weights(reduced[0])
        offset += float(best[0])
        size = len(weights)
        if depth is None and size <= _DEPTHS[0]:
            depth = size
        if depth is not None:
            return cls(tightest_plan(weights, offset, min(depth, size), tail))
        pilot = make_plan(weights, offset, tail=tail)
        sums = empty_sums(size)
        add_chunk(pilot.tables, seed_state(0), _CHUNK, sums)
        guess = pilot.log_bound + log_mean(sums)
        return cls(deepen(pilot, weights, offset, guess, 1000.0, tail))

    def sample(
        self,
        n: int,
        rng: np.random.Generator,
        n_jobs: int = 1,
        max_trials: int = 100_000_000,
    ) -> IntArray:
        """Draw `n` independent matchings, (n, m); the same for every `n_jobs`.

        Parameters
        ----------
        n : int
            Number of matchings.
        rng : numpy.random.Generator
            Source of the seeds.
        n_jobs : int
            Threads.
        max_trials : int
            Maximum number of draws.

        Returns
        -------
        ndarray of shape (n, m)
            One matching per row.

        Raises
        ------
        PrecisionError
            If `max_trials` draws do not leave `n` matchings.
        """
        return self.sample_with_rate(n, rng, n_jobs, max_trials)[0]

    def sample_with_rate(
        self,
        n: int,
        rng: np.random.Generator,
        n_jobs: int = 1,
        max_trials: int = 100_000_000,
    ) -> tuple[IntArray, float]:
        """Draw as `sample` does; return the matchings and the share of draws kept.

        Parameters
        ----------
        n : int
            Number of matchings.
        rng : numpy.random.Generator
            Source of the seeds.
        n_jobs : int
            Threads.
        max_trials : int
            Maximum number of draws.

        Returns
        -------
        matchings : ndarray of shape (n, m)
            One matching per row.
        rate : float
            Share of draws kept; not a number if none was made.
        """
        size = len(self.plan.order)
        with enough_memory(f"an array of {n} samples", 8.0 * n * size):
            matchings = np.empty((n, size), dtype=np.intp)
        seed = int(rng.integers(1 << 62))
        job = Job(n_jobs)
        n_found = n_kept = n_done = n_chunks_done = 0
        wanted = float(n)
        while n_found < n:
            if n_done >= max_trials:
                raise PrecisionError(
                    f"exact samples need accepted draws; {n_kept} of {n_done} were "
                    f"accepted, and {n} samples were requested. Request fewer, raise "
                    "max_trials, or sample approximately with SwapChain."
                )
            wanted = min(wanted, max_trials - n_done)
            n_chunks = min(max(math.ceil(wanted / _CHUNK), 1), _CHUNKS_PER_ROUND)
            kept: list[IntArray] = [np.empty((0, size), np.intp)] * n_chunks

            def draw(
                k: int, kept: list[IntArray] = kept, first: int = n_chunks_done
            ) -> None:
                rows = np.empty((_CHUNK, size), dtype=np.int64)
                count = accept_chunk(
                    self.plan.tables, seed_state(seed, first + k), _CHUNK, rows
                )
                kept[k] = self.plan.matchings(rows[:count])

            job.run(draw, n_chunks)
            n_done += n_chunks * _CHUNK
            n_chunks_done += n_chunks
            found = np.concatenate(kept)
            n_kept += len(found)
            used = found[: n - n_found]
            matchings[n_found : n_found + len(used)] = used
            n_found += len(used)
            wanted = 1.1 * (n - n_found) * n_done / max(n_kept, 1)
        return matchings, n_kept / n_done if n_done else math.nan
