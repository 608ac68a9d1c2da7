"""What the chains of one graph say, and how far they can be trusted."""

import math
import warnings
from dataclasses import dataclass

import numpy as np

from permatch._types import FloatArray, IntArray

#: Chains are taken as mixed up to this R-hat and from so many effective samples, ...
LARGEST_R_HAT = 1.05
FEWEST_SAMPLES = 100
#: ... if no marginal lacks more standard errors than this of what it must be at least.
LARGEST_SHORTFALL = 3.5


@dataclass(frozen=True, eq=False)
class ChainReport:
    """What the chains of one graph say, and how far they can be trusted.

    Attributes
    ----------
    log_partition, log_partition_error : float
        Estimate by stepping stones and its standard error; NaN without tempering.
    marginals, marginal_errors : ndarray of shape (m, m)
        Probability of every edge and its standard error.
    effective_samples : float
        Fewest over the score of the matching and the most uncertain edges.
    r_hat : float
        Largest disagreement between chains over the same quantities.
    energy_r_hat : float
        Disagreement about the score of the matching alone.
    shortfall : float
        By how many standard errors a marginal, at most, is below the probability that the
        best matching with its edge must have, given how often the best one was seen.
    betas : ndarray of shape (R,)
        Inverse temperatures of the rungs.
    exchange_rates : ndarray of shape (R - 1,)
        Share of exchanges that neighbouring rungs accept.
    move_rate : float
        Share of the proposals that move the coldest rung.
    n_sweeps : int
        Sweeps per chain, burn-in left out.
    n_chains : int
        Number of chains.
    """

    log_partition: float
    log_partition_error: float
    marginals: FloatArray
    marginal_errors: FloatArray
    effective_samples: float
    r_hat: float
    energy_r_hat: float
    shortfall: float
    betas: FloatArray
    exchange_rates: FloatArray
    move_rate: float
    n_sweeps: int
    n_chains: int

    @property
    def is_mixed(self) -> bool:
        """Whether chains agree and moved often enough for errors to mean something."""
        return (
            self.r_hat <= LARGEST_R_HAT
            and self.effective_samples >= FEWEST_SAMPLES
            and self.shortfall <= LARGEST_SHORTFALL
            and self.log_partition_error != math.inf
        )

    @classmethod
    def certain(cls, weights: FloatArray, offset: float) -> "ChainReport":
        """Report on a graph with at most one edge, which needs no chain."""
        return cls(
            float(offset + np.log(weights).sum()),
            0.0,
            np.ones_like(weights),
            np.zeros_like(weights),
            float(FEWEST_SAMPLES),
            1.0,
            1.0,
            0.0,
            np.ones(1),
            np.zeros(0),
            1.0,
            0,
            0,
        )

    @property
    def acceptance(self) -> float:
        """The smallest exchange rate; the move rate without tempering."""
        return float(min(self.exchange_rates, default=self.move_rate))

    def meets(self, tol: float | None) -> bool:
        """Whether chains have mixed and no standard error is above `tol`, if given."""
        return self.is_mixed and (tol is None or self.marginal_error <= tol)

    @property
    def marginal_error(self) -> float:
        """The largest standard error of a marginal."""
        return float(self.marginal_errors.max(initial=0.0))


def warn_if_unmixed(reports: list[ChainReport], members: IntArray) -> None:
    """Warn, in the name of `infer`, of the graph furthest from having mixed."""
    lost = [g for g, report in enumerate(reports) if not report.is_mixed]
    if not lost:
        return
    worst = max(lost, key=lambda g: (reports[g].r_hat, reports[g].shortfall))
    report = reports[worst]
    others = f" (like {len(lost) - 1} others)" if len(lost) > 1 else ""
    advice = f"Raise n_sweeps (now {report.n_sweeps})"
    if len(report.betas) == 1:
        advice += ", or set tempering=True"
    missed = ""
    if report.shortfall > LARGEST_SHORTFALL:
        missed = "; and it has missed matchings that are likely"
    warnings.warn(
        f"SwapChain has not mixed: graph {members[worst]} of size {len(report.marginals)}"
        f"{others} should have R-hat at most {LARGEST_R_HAT} and at least {FEWEST_SAMPLES} "
        f"effective samples, got {report.r_hat:.3f} and {report.effective_samples:.0f}"
        f"{missed}. Its marginals and their errors are not to be trusted. "
        f"{advice}, or use another engine.",
        RuntimeWarning,
        stacklevel=5,
    )


def story(reports: list[ChainReport]) -> str:
    """Say how the chains of the graph that exchanged least were run."""
    if not reports:
        return "asked for"
    report = min(reports, key=lambda report: report.acceptance)
    story = f"asked for: {report.n_chains} chains of {report.n_sweeps} sweeps"
    if len(report.exchange_rates):
        low, high = report.exchange_rates.min(), report.exchange_rates.max()
        story += (
            f", {len(report.betas)} rungs that exchange {low:.0%} to {high:.0%} of the time"
        )
    return story
