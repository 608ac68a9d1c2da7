"""The result of chains on the edges of a problem.

Components that are trees need no chain: belief propagation is exact there.
"""

import warnings
from dataclasses import replace

import numpy as np

from permatch._types import BoolArray, FloatArray, IntArray
from permatch.assignment import best_assignment
from permatch.inference.answer import Diagnostics, InferenceResult
from permatch.inference.base import Job
from permatch.inference.belief_propagation import beliefs
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
from permatch.inference.components import Assembly
from permatch.problems import Problem

# Trees are solved to this change of a belief: they settle for good.
_TREE_TOL = 1e-13


def trees(problem: Problem) -> BoolArray:
    """Return which components are trees."""
    found = problem.structure.components
    n_left, n_right = found.sizes
    return found.n_edges < n_left + n_right


def add_trees(whole: Assembly, engine: str, job: Job) -> None:
    """Add the answers for components that are trees, which are exact."""
    problem = whole.problem
    part = problem.select(np.nonzero(trees(problem))[0])
    n_left, n_right = problem.structure.components.sizes
    longest = int((n_left + n_right).max(initial=0)) + 2
    found = beliefs(part.problem, tol=_TREE_TOL, max_iter=longest, job=job)
    answer = InferenceResult(
        found.log_partition,
        found.marginals,
        True,
        Diagnostics(engine, "asked for", 0, part.problem.structure.n_graphs),
        unmatched_left=found.unmatched_left,
        unmatched_right=found.unmatched_right,
    )
    whole.add(part, answer)


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
    if not problem.is_partial:
        best_assignment(problem)  # or refuse it
    whole = Assembly(problem)
    add_trees(whole, "swap_chain", job)
    others = np.nonzero(~trees(problem))[0]
    if len(others):
        part = problem.select(others)
        target = build_target(part.problem, n_rungs)
        chains = EdgeChains.start(target, n_chains, seed)
        found = run_until(chains, schedule, budget, job)
        warn_if_apart(found)
        answer = report(target, found, n_chains)
        whole.add(part, answer.told(is_converged=meets(answer, schedule.tol)))
    return whole.result("swap_chain", "asked for")


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
    sides = (
        (structure.left, structure.n_left, problem.unmatched_left),
        (structure.right, structure.n_right, problem.unmatched_right),
    )
    left, right = (
        np.where(free > -np.inf, _rest(nodes, marginals, n), 0.0)
        for nodes, n, free in sides
    )
    return replace(
        answer,
        log_partition=values,
        log_partition_error=log_errors,
        unmatched_left=left,
        unmatched_right=right,
    ).told(size=int(sizes.max(initial=0)), n_graphs=structure.n_graphs)


def _by_graph(target: EdgeTarget, values: FloatArray) -> FloatArray:
    sums = np.bincount(target.graphs, values, target.problem.structure.n_graphs)
    return sums.astype(float)


def _rest(nodes: IntArray, marginals: FloatArray, n: int) -> FloatArray:
    """Return what the edges of every node leave of one."""
    rest = np.ones(n)
    rest -= np.bincount(nodes, marginals, n)
    return np.clip(rest, 0.0, 1.0)


def warn_if_apart(found: Estimates) -> None:
    """Warn the caller of `infer` that chains of some component have not mixed."""
    lost = np.nonzero(~found.is_mixed)[0]
    if not len(lost):
        return
    worst = lost[int(np.argmax(found.r_hat[lost]))]
    n_edges = int(np.diff(found.edge_starts)[worst])
    others = f" (like {len(lost) - 1} others)" if len(lost) > 1 else ""
    warnings.warn(
        f"SwapChain has not mixed: a component of {n_edges} edges{others} should have "
        f"R-hat at most {LARGEST_R_HAT} and at least {FEWEST_SAMPLES} effective samples, "
        f"got {found.r_hat[worst]:.3f} and {found.n_effective[worst]:.0f}. Its marginals "
        f"and their errors are unreliable. Raise n_sweeps (now {found.n_sweeps[worst]}), "
        "or use another engine.",
        RuntimeWarning,
        stacklevel=5,
    )
