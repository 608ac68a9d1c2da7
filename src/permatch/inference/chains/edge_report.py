"""The result of chains on the edges of a problem, and its reliability."""

import warnings
from dataclasses import replace

import numpy as np

from permatch._types import FloatArray
from permatch._validation import like_others
from permatch.inference.answer import InferenceResult
from permatch.inference.base import Job
from permatch.inference.chains.edge_estimates import Estimates
from permatch.inference.chains.edge_run import EdgeChains, run_until
from permatch.inference.chains.edge_target import EdgeTarget, build_target
from permatch.inference.chains.report import (
    FEWEST_SAMPLES,
    LARGEST_R_HAT,
    chain_answer,
    meets,
)
from permatch.inference.chains.run import Schedule
from permatch.inference.edge_answers import joined, unmatched, with_trees
from permatch.problems import Problem


def infer_edges(
    problem: Problem,
    n_rungs: int,
    n_chains: int,
    seed: int,
    schedule: Schedule,
    budget: float | None,
    job: Job,
) -> InferenceResult:
    """Let chains walk on the components of a problem that are not trees."""
    whole, is_open = with_trees(problem, "swap_chain", job)
    if is_open.any():
        part = problem.select(np.nonzero(is_open)[0])
        target = build_target(part.problem, n_rungs)
        chains = EdgeChains.start(target, n_chains, seed)
        found = run_until(chains, schedule, budget, job)
        warn_if_apart(found)
        answer = report(target, found, n_chains)
        whole.add(part, answer.told(is_converged=meets(answer, schedule.tol)))
    return joined(whole, "swap_chain")


def report(target: EdgeTarget, found: Estimates, n_chains: int) -> InferenceResult:
    """Return what chains say of a problem: a log-partition for every graph."""
    problem = target.problem
    structure = problem.structure
    marginals, errors = np.zeros(structure.n_edges), np.zeros(structure.n_edges)
    marginals[target.places] = found.marginals
    errors[target.places] = found.errors
    values = target.scaled.offsets + _by_graph(target, found.log_partition)
    log_errors = np.sqrt(_by_graph(target, found.log_errors**2))
    widest = int(np.argmax(np.nan_to_num(log_errors))) if len(values) else 0
    answer = chain_answer(
        float(values[widest]) if len(values) else 0.0,
        float(log_errors[widest]) if len(values) else 0.0,
        marginals,
        errors,
        effective_samples=float(found.n_effective.min(initial=np.inf)),
        r_hat=float(found.r_hat.max(initial=1.0)),
        energy_r_hat=float(found.energy_r_hat.max(initial=1.0)),
        shortfall=0.0,
        betas=target.edges.betas[int(np.argmax(found.r_hat))],
        exchange_rates=found.exchange_rates if target.slopes.shape[0] > 1 else np.zeros(0),
        move_rate=1.0,
        n_sweeps=int(found.n_sweeps.max(initial=0)),
        n_chains=n_chains,
    )
    sizes = np.maximum(np.diff(structure.left_starts), np.diff(structure.right_starts))
    return replace(
        answer,
        log_partition=values,
        log_partition_error=log_errors,
        **unmatched(problem, marginals),
    ).told(size=int(sizes.max(initial=0)), n_graphs=structure.n_graphs)


def _by_graph(target: EdgeTarget, values: FloatArray) -> FloatArray:
    sums = np.bincount(target.graphs, values, target.problem.structure.n_graphs)
    return sums.astype(float)


def warn_if_apart(found: Estimates) -> None:
    """Warn the caller of `infer` that chains of some component have not mixed."""
    lost = np.nonzero(~found.is_mixed)[0]
    if not len(lost):
        return
    worst = lost[int(np.argmax(found.r_hat[lost]))]
    n_edges = int(np.diff(found.edge_starts)[worst])
    warnings.warn(
        f"SwapChain has not mixed: a component of {n_edges} edges"
        f"{like_others(len(lost))} should have R-hat at most {LARGEST_R_HAT} and at least "
        f"{FEWEST_SAMPLES} effective samples, got {found.r_hat[worst]:.3f} and "
        f"{found.n_effective[worst]:.0f}. Its marginals and their errors are unreliable. "
        f"Raise n_sweeps (now {found.n_sweeps[worst]}), "
        "or use another engine.",
        RuntimeWarning,
        stacklevel=5,
    )
