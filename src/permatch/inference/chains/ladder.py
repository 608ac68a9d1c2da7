"""The rungs of parallel tempering: how hot each is, tuned so that neighbours exchange."""

import math
from dataclasses import dataclass

import numpy as np

from permatch._types import FloatArray, IntArray

# Neighbouring rungs are spaced to refuse about this share of exchanges.
_REFUSAL = 0.45
_MOST_RUNGS = 48
# The cut-off is lowered while the target accepts fewer states from the rung above it.
_LOWEST_EXCHANGE = 0.2


@dataclass(frozen=True, eq=False)
class Ladder:
    """The densities of all rungs of one graph.

    Attributes
    ----------
    cold : ndarray of shape (m, m)
        Scores of the target, rung 0, rows and columns balanced.
    soft : ndarray of shape (m, m)
        Scores of the other rungs: `cold`, but nowhere below the cut-off.
    betas : ndarray of shape (R,)
        Inverse temperatures, from 1 down to 0; ``[1]`` without tempering.
    centers : ndarray of shape (R - 1,)
        About the mean log-ratio of the densities of neighbours.
    n_wanted : int or None
        The number of rungs asked for; None chooses it.
    cut_off : float
        How far below zero `soft` may go.
    """

    cold: FloatArray
    soft: FloatArray
    betas: FloatArray
    centers: FloatArray
    n_wanted: int | None
    cut_off: float

    @property
    def is_cut(self) -> bool:
        """Whether `soft` differs from `cold`; then rung 1 is `soft` at ``beta = 1``."""
        return len(self.betas) > 1 and self.betas[1] == 1.0

    @classmethod
    def build(cls, cold: FloatArray, n_wanted: int | None) -> "Ladder":
        """Guess a first ladder from the spread of the scores."""
        size = len(cold)
        if n_wanted == 1:
            return cls(cold, cold, np.ones(1), np.zeros(0), 1, math.inf)
        # Balanced weights below 1/m^2 add up to about one edge in all matchings together.
        cut_off = 2.0 * math.log(size) + 1.0
        soft = np.maximum(cold, -cut_off)
        middle = soft - soft.mean(axis=0) - soft.mean(axis=1)[:, None] + soft.mean()
        spread = float(np.sqrt((middle**2).sum() / max(size - 1, 1) / size))
        grid = np.linspace(1.0, 0.0, 65)
        barrier = math.sqrt(size / math.pi) * spread / (1.0 + grid * spread)
        betas = _placed(grid, barrier, bool((soft != cold).any()), n_wanted)
        return cls(cold, soft, betas, np.zeros(len(betas) - 1), n_wanted, cut_off)

    def tuned(
        self, moments: FloatArray, exchanges: FloatArray
    ) -> tuple["Ladder", IntArray]:
        """Return a better ladder, and which old rung each new one takes its state from.

        `moments` (R, 2) are the mean and the mean square of the soft score of each rung,
        `exchanges` (R - 1,) the chances of exchange.
        """
        if len(self.betas) == 1:
            return self, np.zeros(1, dtype=np.intp)
        skip = int(self.is_cut)
        sd = np.sqrt(np.maximum(moments[skip:, 1] - moments[skip:, 0] ** 2, 0.0))
        # Of two draws at the same temperature, the mean difference is 2 sd / sqrt(pi) if
        # the scores are normal: the rate at which refusals grow as rungs move apart.
        barrier = np.maximum(sd, 1e-9) / math.sqrt(math.pi)
        cut_off = self.cut_off
        if self.is_cut and exchanges[0] < _LOWEST_EXCHANGE:
            cut_off += 2.0
        soft = np.maximum(self.cold, -cut_off)
        is_cut = bool((soft != self.cold).any())
        betas = _placed(self.betas[skip:], barrier, is_cut, self.n_wanted)
        source = np.abs(betas[:, None] - self.betas[None, skip:]).argmin(axis=1) + skip
        source[0] = 0  # the only one sure to use no forbidden edge
        means = np.interp(betas[::-1], self.betas[::-1], moments[::-1, 0])[::-1]
        centers = 0.5 * (means[:-1] + means[1:]) * -np.diff(betas)
        ladder = Ladder(self.cold, soft, betas, centers, self.n_wanted, cut_off)
        return ladder, source


def _placed(
    grid: FloatArray, barrier: FloatArray, is_cut: bool, n_wanted: int | None
) -> FloatArray:
    """Return inverse temperatures whose neighbours refuse alike; `grid` falls from 1 to 0.

    `barrier` is the rate of refusals along the grid.
    """
    steps = -0.5 * np.diff(grid) * (barrier[:-1] + barrier[1:])
    height = np.concatenate([[0.0], np.cumsum(steps)])
    if n_wanted is None:
        n_path = min(max(math.ceil(height[-1] / _REFUSAL) + 1, 3), _MOST_RUNGS)
    else:
        n_path = max(n_wanted - is_cut, 2)
    betas = np.interp(np.linspace(0.0, height[-1], n_path), height, grid)
    betas[0], betas[-1] = 1.0, 0.0
    return np.concatenate([[1.0], betas]) if is_cut else betas
