"""The components of a problem, each by the engine that suits it.

Narrow components are solved exactly, all in one call: by `Frontier`, or, if they are square
and all nodes must be matched, by `SmallBatch` or `Glynn` where those are faster.  What is
left, too wide for any exact engine, is taken one component after the other: first come the
intervals of `PathTree`, where every node may stay unmatched, then samplers, until all
marginals are known to within the tolerance.
"""

import math
import warnings
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cache
from typing import Protocol

import numpy as np

from permatch._memory import LITTLE, available_memory
from permatch._parallel import Allowance, Job
from permatch._types import BoolArray, FloatArray, IntArray
from permatch.assignment import best_assignment
from permatch.errors import InfeasibleGraphError, PrecisionError, SizeLimitError
from permatch.inference._options import seed_of
from permatch.inference.answer import Diagnostics, InferenceResult, weakest
from permatch.inference.base import AbstractEngine, Goal
from permatch.inference.bethe import Bethe
from permatch.inference.capacities import counted_components
from permatch.inference.components import Assembly, errors_of, perfect_components
from permatch.inference.counted import allow_width, counts_plan, too_wide
from permatch.inference.frontier import Frontier
from permatch.inference.glynn import Glynn
from permatch.inference.nesting import Nesting
from permatch.inference.path_tree import PathTree
from permatch.inference.small_batch import SmallBatch
from permatch.inference.sparsified import Sparsified
from permatch.inference.swap_chain import SwapChain
from permatch.kernels.frontier_plan import MOST_OPEN, frontier_plan
from permatch.problems import Problem
from permatch.scores import check_problem, stacked_problem

Ends = tuple[FloatArray, FloatArray] | None

# Part of the time left that each engine may take, and of the tolerance, for pruning.
_SHARE = 0.5
# Per edge, before chains say anything.
_SECONDS_OF_CHAINS = 5e-5
# Widest component that is tried after pruning.
_PRUNED_WIDTH = 18

_SMALL, _FRONTIER = SmallBatch(), Frontier(max_width=MOST_OPEN)


@dataclass(frozen=True, eq=False)
class Choice:
    """Which components each exact engine takes, and those that none can take."""

    groups: tuple[tuple[AbstractEngine, IntArray], ...]
    wide: IntArray
    log2_seconds: float  # of what is solved exactly, on one thread


class Options(Protocol):
    """The options of `AutoEngine`."""

    @property
    def exact_size(self) -> int:
        """Largest width solved exactly."""
        ...

    @property
    def tol(self) -> float:
        """Error to reach."""
        ...

    @property
    def delta(self) -> float:
        """Probability of missing it."""
        ...

    @property
    def budget(self) -> float | None:
        """Seconds per graph."""
        ...

    @property
    def random_state(self) -> int:
        """Seed."""
        ...


#: Solves a component without unmatched nodes as an array, for a graph's number.
DenseSolver = Callable[[Problem, int, Job], InferenceResult]


def solve_problem(
    problem: Problem, options: Options, job: Job, dense: DenseSolver
) -> tuple[InferenceResult, IntArray]:
    """Solve narrow components exactly, and wide ones as well as time allows.

    Return the answer, and a graph that each of its parts belongs to.
    """
    choice = choose(problem, options.exact_size, options.budget)
    try:
        return _solve_components(problem, choice, options, job, dense)
    except InfeasibleGraphError:
        best_assignment(problem)  # its error names the graph
        raise


def solve_sparse(scores: FloatArray, options: Options, job: Job) -> InferenceResult | None:
    """Solve squares (b, m, m) by their components, if that is exact and pays."""
    size = scores.shape[1]
    problem = stacked_problem(scores)
    found = problem.structure.components
    if min(found.of_left.min(), found.of_right.min()) < 0:
        return None  # a node without edges: the error comes later
    choice = choose(problem, options.exact_size, options.budget)
    whole = Glynn().log2_seconds(size) + math.log2(len(scores))
    is_able = size <= options.exact_size
    if len(choice.wide) or (is_able and whole <= choice.log2_seconds):
        return None
    try:
        answer, _ = _solve_components(problem, choice, options, job, _give_up)
    except (InfeasibleGraphError, PrecisionError):
        return None  # reported, or solved, as a whole
    marginals = np.zeros_like(scores)
    marginals[scores > -np.inf] = answer.marginals
    return replace(answer, marginals=marginals).told(size=size)


def _solve_components(
    problem: Problem,
    choice: Choice,
    options: Options,
    job: Job,
    dense: DenseSolver,
) -> tuple[InferenceResult, IntArray]:
    n_found = len(problem.structure.components)
    if [len(components) for _, components in choice.groups] == [n_found]:
        engine, _ = choice.groups[0]
        if engine is _FRONTIER:  # no copy of the problem, whose plan is kept
            answer = engine._infer_problem(problem, job)
            return answer.told(choice=_chosen(engine, n_found)), np.zeros(1, np.intp)
    whole, wide = Assembly(problem), [choice.wide]
    for engine, components in choice.groups:
        part = problem.select(components)
        try:
            answer = engine._infer_problem(part.problem, job)
        except PrecisionError:  # flat graphs too large for the fallback of `Glynn`
            wide.append(components)
            continue
        whole.add(part, answer.told(choice=_chosen(engine, len(components))))
    left = np.concatenate(wide)
    graphs = problem.structure.graph_of_component[left]
    for g in np.unique(graphs).tolist():
        time = Allowance(options.budget)
        own = left[graphs == g].tolist()
        for n_done, c in enumerate(own):
            seed = seed_of(options.random_state, g, c)
            share = 1.0 / (len(own) - n_done)
            goal = Goal(options.tol, options.delta / len(own), seed, time, share)
            part = problem.select(np.array([c]))
            size = options.exact_size
            whole.add(part, solve_wide(part.problem, goal, job, dense, g, size))
    first = [int(part.components[0]) for part, _ in whole.parts]
    told = [answer.diagnostics for _, answer in whole.parts]
    answer = whole.result("auto", "auto: every component by itself: see parts")
    if len(told) == 1:
        answer = answer.told(engine=told[0].engine, choice=told[0].choice)
    return answer, problem.structure.graph_of_component[first]


def _give_up(problem: Problem, member: int, job: Job) -> InferenceResult:
    raise PrecisionError(f"graph {member} is not solved by its components")


def _chosen(engine: AbstractEngine, n_components: int) -> str:
    several = f"{n_components} components" if n_components != 1 else "one component"
    return f"auto: {engine.name} is the fastest exact engine for {several}"


def choose(problem: Problem, exact_size: int, budget: float | None) -> Choice:
    """Return the cheapest exact engine of every component, by the engines' own estimates.

    `exact_size` is the largest width, and the largest square component, solved exactly;
    `budget` are the seconds that a component may take.
    """
    found = problem.structure.components
    limit = 1e3 if budget is None else math.log2(budget)  # below what is infinite
    plan = frontier_plan(problem.structure)
    is_narrow = plan.width <= min(exact_size, MOST_OPEN)
    if plan.log2_bytes.max(initial=0.0) > math.log2(LITTLE):
        is_narrow &= plan.log2_bytes <= math.log2(_SHARE * max(available_memory(), 1.0))
    by_frontier = np.where(is_narrow, plan.log2_seconds, math.inf)
    is_perfect = perfect_components(problem)
    if problem.has_capacities:
        is_counted = counted_components(problem)
        by_frontier[is_counted] = _of_counts(problem, is_counted, exact_size, budget)
        is_perfect &= ~is_counted
    if not is_perfect.any():
        return _all_by_frontier(by_frontier, limit)
    n_left, n_right = found.sizes
    is_dense = is_perfect & (found.n_edges == n_left * n_right)
    is_small = is_dense & (n_left <= min(_SMALL.max_size, exact_size))
    by_glynn = np.full(len(found), math.inf)
    glynn = Glynn(max_size=exact_size)
    is_able = is_perfect & (n_left <= exact_size)
    sizes, places = np.unique(n_left[is_able], return_inverse=True)
    by_glynn[is_able] = np.array([glynn.log2_seconds(int(m)) for m in sizes])[places]
    is_glynn = ~is_small & (by_glynn < by_frontier) & (by_glynn <= limit)
    is_frontier = ~is_small & ~is_glynn & (by_frontier <= limit)
    masks = (_SMALL, is_small), (glynn, is_glynn), (_FRONTIER, is_frontier)
    groups = tuple((engine, np.nonzero(mask)[0]) for engine, mask in masks if mask.any())
    seconds = np.exp2(np.minimum(by_glynn, by_frontier)[is_glynn | is_frontier]).sum()
    return Choice(
        groups,
        np.nonzero(~(is_small | is_glynn | is_frontier))[0],
        math.log2(seconds + 1e-7 * (1 + np.count_nonzero(is_small))),
    )


def _of_counts(
    problem: Problem, is_counted: BoolArray, exact_size: int, budget: float | None
) -> FloatArray:
    """Return log2 of the seconds of components with counters; refuse those too wide."""
    part = problem.select(np.nonzero(is_counted)[0]).problem
    plan = counts_plan(part)
    widest, seconds = min(exact_size, MOST_OPEN), math.inf if budget is None else budget
    if plan.widest > widest:
        limit = f"auto handles at most 2^{widest} states"
        raise too_wide(part, plan, limit, allow_width(plan))
    if plan.log2_seconds.max() > math.log2(seconds):
        limit = f"auto has a budget of {budget:g} s"
        raise too_wide(part, plan, limit, allow_width(plan))
    return plan.log2_seconds


def _all_by_frontier(log2_seconds: FloatArray, limit: float) -> Choice:
    """Return the choice where no component is perfect: only `Frontier` is exact."""
    is_able = log2_seconds <= limit
    (able,) = np.nonzero(is_able)
    groups = ((_FRONTIER, able),) if len(able) else ()
    seconds = float(np.exp2(log2_seconds[able]).sum())
    return Choice(groups, np.nonzero(~is_able)[0], math.log2(seconds + 1e-7))


def solve_wide(
    problem: Problem,
    goal: Goal,
    job: Job,
    dense: DenseSolver,
    member: int,
    exact_size: int,
) -> InferenceResult:
    """Solve a component that is too wide for exact engines, as well as time allows."""
    if perfect_components(problem).all():
        with suppress(SizeLimitError):  # too large for an array: on its edges, then
            return _on_edges(problem, dense(problem, member, job))
    best: InferenceResult | None = None
    steps: list[Diagnostics] = []
    for engine in _attempts(problem, goal, exact_size):
        with goal.time.free():
            _load(type(engine))
        try:
            with warnings.catch_warnings(action="ignore", category=RuntimeWarning):
                answer = engine.infer_problem(problem, job)
        except (PrecisionError, SizeLimitError) as err:
            steps.append(_failed(engine, problem, str(err)))
            continue
        steps.append(answer.diagnostics)
        best = answer if best is None else combine(best, answer, goal)
        if best.diagnostics.is_settled or not goal.time.left:
            break
    assert best is not None  # paths and belief propagation always answer
    tried = " -> ".join(step.engine for step in steps)
    return best.told(choice=f"too wide for exact engines: {tried}", steps=tuple(steps))


def _attempts(problem: Problem, goal: Goal, exact_size: int) -> Iterator[AbstractEngine]:
    """Yield engines from cheap to expensive, each with its share of the time left."""
    n_edges = problem.structure.n_edges
    is_slow = _SECONDS_OF_CHAINS * n_edges > _SHARE * goal.seconds

    def seconds(share: float) -> float | None:
        return None if goal.seconds == math.inf else max(share * goal.seconds, 1e-3)

    if problem.is_partial:
        if exact_size:
            width = min(_PRUNED_WIDTH, exact_size)
            yield Sparsified(tol=_SHARE * goal.tol, max_block=width)
        yield PathTree(tol=goal.tol, budget=seconds(1.0 if is_slow else _SHARE))
    else:
        yield Bethe()
    if not is_slow:
        yield Nesting(
            tol=goal.tol,
            delta=goal.delta,
            random_state=goal.seed,
            budget=seconds(_SHARE),
        )
        tol = goal.tol / goal.factor(n_edges)
        yield SwapChain(tol=tol, random_state=goal.seed, budget=seconds(1.0))


@cache
def _load(kind: type[AbstractEngine]) -> None:
    """Have the kernels of an engine compiled or loaded, by a graph of no size."""
    problem, _ = check_problem(np.zeros((3, 3)), 0.0, 0.0)
    with warnings.catch_warnings(action="ignore", category=RuntimeWarning):
        kind().infer_problem(problem, Job())


def _on_edges(problem: Problem, answer: InferenceResult) -> InferenceResult:
    """Return the answer for a dense square as one for its edges."""
    places = problem.structure.left, problem.structure.right
    errors = answer.marginal_errors
    log_error = answer.log_partition_error
    nobody = np.zeros(problem.structure.n_left)
    return replace(
        answer,
        log_partition=np.array([answer.log_partition]),
        log_partition_error=None if log_error is None else np.array([log_error]),
        marginals=answer.marginals[places],
        marginal_errors=None if errors is None else errors[places],
        unmatched_left=nobody,
        unmatched_right=nobody,
    )


def _failed(engine: AbstractEngine, problem: Problem, reason: str) -> Diagnostics:
    size = max(problem.structure.n_left, problem.structure.n_right)
    return Diagnostics(
        engine.name, "", size, certificate="heuristic", is_converged=False, notes=(reason,)
    )


def combine(one: InferenceResult, other: InferenceResult, goal: Goal) -> InferenceResult:
    """Return the better of two answers for every edge, within the intervals that hold."""
    n_edges = len(one.marginals)
    reaches = _reach(one, goal.factor(n_edges)), _reach(other, goal.factor(n_edges))
    is_other = reaches[1] < reaches[0]
    reach = np.minimum(*reaches)
    # Nodes have no errors of their own: they follow the answer that most edges follow.
    better = other if 2 * np.count_nonzero(is_other) > n_edges else one
    ends = {
        name: _narrowest(getattr(one, name), getattr(other, name))
        for name in ("marginal_bounds", "unmatched_left_bounds", "unmatched_right_bounds")
    }
    marginals = np.where(is_other, other.marginals, one.marginals)
    errors = np.where(is_other, errors_of(other), errors_of(one))
    used = [one] * (not is_other.all()) + [other] * bool(is_other.any())
    closer = min((better, one, other), key=_log_reach)
    return replace(
        better,
        log_partition=closer.log_partition,
        log_partition_error=closer.log_partition_error,
        marginals=_within(marginals, ends["marginal_bounds"]),
        marginal_errors=errors,
        unmatched_left=_within(better.unmatched_left, ends["unmatched_left_bounds"]),
        unmatched_right=_within(better.unmatched_right, ends["unmatched_right_bounds"]),
        **ends,
    ).told(
        certificate=weakest(answer.diagnostics.certificate for answer in used),
        is_converged=bool(reach.max(initial=0.0) <= goal.tol),
        marginal_error=float(errors.max(initial=0.0)),
    )


def _reach(answer: InferenceResult, factor: float) -> FloatArray:
    """Return how far off the marginals may be, all at once; infinite if unknown."""
    if answer.is_exact:
        return np.zeros(len(answer.marginals))
    told = answer.diagnostics
    if not told.is_trusted:
        return np.full(len(answer.marginals), np.inf)
    errors = np.full(len(answer.marginals), errors_of(answer))
    scale = 1.0 if told.certificate == "rigorous" else factor
    return scale * np.nan_to_num(errors, nan=np.inf)


def _log_reach(answer: InferenceResult) -> float:
    """Return how far off the log-partition may be; infinite if unknown."""
    error = answer.log_partition_error
    if answer.is_exact or error is None or not answer.diagnostics.is_trusted:
        return 0.0 if answer.is_exact else math.inf
    return float(np.nan_to_num(error, nan=math.inf).max())


def _narrowest(one: Ends, other: Ends) -> Ends:
    if one is None or other is None:
        return one or other
    return np.maximum(one[0], other[0]), np.minimum(one[1], other[1])


def _within(values: FloatArray, ends: Ends) -> FloatArray:
    return values if ends is None else np.clip(values, *ends)
