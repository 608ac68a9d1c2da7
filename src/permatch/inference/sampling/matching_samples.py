"""Exact independent samples of one graph: tables while they fit, coins after."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from permatch._types import FloatArray, IntArray
from permatch.errors import PrecisionError, SizeLimitError
from permatch.inference.blocks import Sparsification, plan_blocks
from permatch.inference.sampling.nesting_table import NestingTable
from permatch.inference.sampling.weighted import empty_sums, log_mean
from permatch.inference.subset_dp import SamplingTable, SubsetDP
from permatch.kernels.intrinsics import seed_state
from permatch.kernels.sliced import add_chunk

#: Matchings across blocks that are left out have at most this probability, all together.
NEGLIGIBLE = 1e-12
# Draws that tell which share of draws will be kept.
_PILOT = 2048
# Most multiplications for all draws of a block, a minute or two, and most draws.
_MOST_STEPS, _MOST_DRAWS = 1e11, 1e8


@dataclass(frozen=True, eq=False)
class MatchingSamples:
    """Where the samples of one graph come from: a table per block.

    Attributes
    ----------
    split : Sparsification
        The blocks.
    tables : sequence of SamplingTable or NestingTable
        What each block is drawn from.

    Examples
    --------
    >>> import numpy as np
    >>> source = MatchingSamples.build(np.eye(30))
    >>> source.sample(4, np.random.default_rng(0)).shape
    (4, 30)
    """

    split: Sparsification
    tables: Sequence[SamplingTable | NestingTable]

    @classmethod
    def build(cls, scores: FloatArray) -> "MatchingSamples":
        """Build the tables for one checked, feasible score matrix.

        Parameters
        ----------
        scores : ndarray of shape (m, m)
            Log-weight of each edge; ``-inf`` forbids an edge.

        Returns
        -------
        MatchingSamples
            Ready to sample from.
        """
        size, largest = len(scores), SubsetDP().max_size
        split = Sparsification.whole(size)
        if size > largest:
            found = plan_blocks(scores, NEGLIGIBLE, largest, is_any_size=True)
            if found is not None and found.is_certified and len(found.blocks) > 1:
                split = found
        return cls(
            split,
            [
                (SamplingTable if len(part) <= largest else NestingTable).build(part)
                for part in split.parts(scores)
            ],
        )

    def sample(self, n: int, rng: np.random.Generator, n_jobs: int = 1) -> IntArray:
        """Draw `n` independent matchings, (n, m); the same for every `n_jobs`.

        Parameters
        ----------
        n : int
            Number of matchings.
        rng : numpy.random.Generator
            Source of all randomness.
        n_jobs : int
            Threads.

        Returns
        -------
        ndarray of shape (n, m)
            One matching per row.

        Raises
        ------
        SizeLimitError
            If it would take too many draws, by a first round of them, or does.
        """
        for log_share, table in zip(self._log_shares, self.tables, strict=True):
            if isinstance(table, NestingTable):
                _check_share(log_share, len(table.plan.order), n)
        if len(self.tables) == 1:
            return _draw(self.tables[0], n, rng, n_jobs)
        drawn = (_draw(table, n, rng, n_jobs) for table in self.tables)
        return self.split.join_matchings(drawn, n)

    @cached_property
    def _log_shares(self) -> list[float]:
        """Logarithms of the share of draws kept, by a first round of them."""
        return [_log_share(t) if isinstance(t, NestingTable) else 0.0 for t in self.tables]


def _most_draws(size: int) -> int:
    """Return how many draws are made from a block at most, whatever becomes of them."""
    return int(min(_MOST_STEPS / size**2, _MOST_DRAWS))


def _log_share(table: NestingTable) -> float:
    """Return the logarithm of the share of some draws that would be kept."""
    sums = empty_sums(len(table.plan.order))
    add_chunk(table.plan.tables, seed_state(0), _PILOT, sums)
    return min(log_mean(sums), 0.0)


def _check_share(log_share: float, size: int, n: int) -> None:
    """Raise SizeLimitError if too few draws would be kept."""
    if n and log_share < math.log(n / _most_draws(size)):
        raise _too_many(size, n, f"about one in exp({-log_share:.0f}) is accepted")


def _draw(
    table: SamplingTable | NestingTable, n: int, rng: np.random.Generator, n_jobs: int
) -> IntArray:
    """Draw from one block; SizeLimitError if the first round of draws had promised more."""
    if isinstance(table, SamplingTable):
        return table.sample(n, rng, n_jobs)
    size = len(table.plan.order)
    try:
        return table.sample(n, rng, n_jobs, max_trials=_most_draws(size))
    except PrecisionError as error:
        raise _too_many(size, n, "too few were accepted") from error


def _too_many(size: int, n: int, found: str) -> SizeLimitError:
    return SizeLimitError(
        f"exact samples are accepted from at most {_most_draws(size):.2g} draws at size "
        f"{size}; with these scores {found}, and {n} samples were requested. Request "
        "fewer, fix known edges (given={row: col} makes the graph smaller), or use "
        "engine='swap_chain', whose samples are approximate and dependent."
    )
