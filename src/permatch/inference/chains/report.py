"""The result of the chains of one graph, and its reliability."""

import math
import warnings
from collections.abc import Sequence

import numpy as np

from permatch._types import FloatArray, IntArray
from permatch._validation import like_others
from permatch.inference.answer import Diagnostics, InferenceResult

#: Chains are taken as mixed up to this R-hat and from so many effective samples, ...
LARGEST_R_HAT = 1.05
FEWEST_SAMPLES = 100
#: ... if no marginal lacks more standard errors than this of what it must be at least.
LARGEST_SHORTFALL = 3.5


def chain_answer(
    log_partition: float,
    log_partition_error: float,
    marginals: FloatArray,
    marginal_errors: FloatArray,
    *,
    effective_samples: float,
    r_hat: float,
    energy_r_hat: float,
    shortfall: float,
    betas: FloatArray,
    exchange_rates: FloatArray,
    move_rate: float,
    n_sweeps: int,
    n_chains: int,
) -> InferenceResult:
    """Return what the chains of one graph say, and whether they have mixed.

    Parameters
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

    Returns
    -------
    InferenceResult
        Its certificate is "heuristic" if chains have not mixed; the numbers that only
        chains have are among the figures of its diagnostics.
    """
    is_mixed = (
        r_hat <= LARGEST_R_HAT
        and effective_samples >= FEWEST_SAMPLES
        and shortfall <= LARGEST_SHORTFALL
        and log_partition_error != math.inf
    )
    note = f"{n_chains} chains of {n_sweeps} sweeps"
    if len(exchange_rates):
        low, high = exchange_rates.min(), exchange_rates.max()
        note += f", {len(betas)} rungs that exchange {low:.0%} to {high:.0%} of the time"
    reach = 2 * log_partition_error
    is_bracketed = is_mixed and math.isfinite(reach)
    told = Diagnostics(
        engine="swap_chain",
        choice="asked for",
        size=len(marginals),
        certificate="asymptotic" if is_mixed else "heuristic",
        interval=(log_partition - reach, log_partition + reach) if is_bracketed else None,
        interval_certificate="asymptotic" if is_bracketed else "",
        n_samples=n_chains * n_sweeps,
        effective_samples=effective_samples,
        acceptance=float(min(exchange_rates, default=move_rate)),
        r_hat=r_hat,
        notes=(note,),
        figures={
            "energy_r_hat": energy_r_hat,
            "shortfall": shortfall,
            "betas": betas,
            "exchange_rates": exchange_rates,
            "move_rate": move_rate,
            "n_sweeps": n_sweeps,
            "n_chains": n_chains,
        },
    )
    return InferenceResult(
        log_partition, marginals, False, told, log_partition_error, marginal_errors
    ).reported()


def certain_answer(weights: FloatArray, offset: float) -> InferenceResult:
    """Return the answer for a graph with at most one edge, which needs no chain."""
    return chain_answer(
        float(offset + np.log(weights).sum()),
        0.0,
        np.ones_like(weights),
        np.zeros_like(weights),
        effective_samples=float(FEWEST_SAMPLES),
        r_hat=1.0,
        energy_r_hat=1.0,
        shortfall=0.0,
        betas=np.ones(1),
        exchange_rates=np.zeros(0),
        move_rate=1.0,
        n_sweeps=0,
        n_chains=0,
    )


def meets(answer: InferenceResult, tol: float | None) -> bool:
    """Return whether chains have mixed and no standard error is above `tol`, if given."""
    return answer.diagnostics.is_trusted and (tol is None or answer.largest_error <= tol)


def warn_if_unmixed(answers: Sequence[InferenceResult], members: IntArray) -> None:
    """Warn the caller of `infer` of the graph furthest from having mixed."""
    lost = [g for g, answer in enumerate(answers) if not answer.diagnostics.is_trusted]
    if not lost:
        return
    reports = [answer.diagnostics for answer in answers]
    worst = max(
        lost, key=lambda g: (reports[g].r_hat or 0.0, reports[g].figures["shortfall"])
    )
    told = reports[worst]
    advice = f"Raise n_sweeps (now {told.figures['n_sweeps']})"
    if len(told.figures["betas"]) == 1:
        advice += ", or set tempering=True"
    missed = ""
    if told.figures["shortfall"] > LARGEST_SHORTFALL:
        missed = "; and it has missed likely matchings"
    warnings.warn(
        f"SwapChain has not mixed: graph {members[worst]} of size {told.size}"
        f"{like_others(len(lost))} should have R-hat at most {LARGEST_R_HAT} and at least "
        f"{FEWEST_SAMPLES} effective samples, got {told.r_hat:.3f} and "
        f"{told.effective_samples:.0f}{missed}. Its marginals and their errors are "
        f"unreliable. {advice}, or use another engine.",
        RuntimeWarning,
        stacklevel=5,
    )
