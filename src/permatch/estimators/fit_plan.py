"""What `auto` will do in a fit: decided, estimated and told before it begins."""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from permatch._parallel import Allowance, Job
from permatch._progress import PATIENCE, tell
from permatch._types import FloatArray
from permatch.distributed.graph_rows import GraphShard
from permatch.estimators.checks import DataSet, with_weight
from permatch.estimators.convergence import warn_caller
from permatch.estimators.matching_parts import GraphsInParts, data_set
from permatch.inference import AutoEngine, Bethe, Nesting
from permatch.inference._words import seconds_in_words
from permatch.inference.learning import (
    MOST_EXACT,
    Closer,
    FitEngine,
    SamplingFitEngine,
    exact_seconds,
)
from permatch.objectives import MatchingLikelihood, Parameters, ScoreLikelihood
from permatch.objectives.labelled import divide, must_match
from permatch.objectives.sharded import ShardedLikelihood
from permatch.problems import Problem, side_by_side

#: An objective that says what its engine solves.
Comparable = MatchingLikelihood | ScoreLikelihood

#: Evaluations that a fit takes, and one that starts near its end, as estimates go.
EVALUATIONS, EVALUATIONS_NEAR = 30, 10
# Part of the time that the approximation may be compared with something better.
_TO_COMPARE = 0.1
# Seconds beyond which comparing must not take longer than the fit.
_LONG = 10.0
# Seconds of a fit with draws, in evaluations with all of them.
_SAMPLED = 0.5
# Per pair and feature, and per pair, of an evaluation.
_SECONDS_PER_CELL, _SECONDS_PER_BELIEF = 5e-9, 4e-6
_LEAST_LIMIT = 1e-6


@dataclass(frozen=True, eq=False)
class _Units:
    """What is solved by itself: components and dense squares."""

    seconds: FloatArray  # of the exact engine, infinite if there is none
    cheap_seconds: FloatArray  # of belief propagation
    n_pairs: FloatArray
    sizes: FloatArray  # of dense squares, 0 for components


@dataclass(frozen=True, eq=False)
class FitPlan:
    """Which components are exact, and how long it will take."""

    engine: FitEngine
    budget: float
    n_exact: int
    n_approximate: int
    n_sampled: int
    n_pairs: int
    n_approximate_pairs: int
    seconds: float  # of an evaluation on one thread
    n_evaluations: int

    @property
    def expected_seconds(self) -> float:
        """Of the whole fit, before approximate results are compared with closer ones."""
        return self.seconds * self.n_evaluations

    @property
    def seconds_to_compare(self) -> float:
        """What comparing may take at most."""
        most = max(self.expected_seconds, _LONG)
        return min(_TO_COMPARE * self.budget, most) if self.n_approximate else 0.0

    def announce(self, is_wanted: bool | None, *, is_limited: bool = True) -> None:
        """Tell what will be done, if it takes long or is approximate.

        Without a limit, what is not exact is left to `AutoEngine`, as far as its own goes.
        """
        if not is_limited and (n_wide := self.n_approximate + self.n_sampled):
            seconds = self.engine.auto.budget
            limit = "any time" if seconds is None else f"up to {seconds:g} seconds"
            words = f"{_components(n_wide)} too wide for an exact result"
            time = f"{limit} per evaluation, and a fit needs about {self.n_evaluations}"
            tell(f"auto: no budget; {words}; each graph with one takes {time}", is_wanted)
        elif self.n_approximate + self.n_sampled or self.expected_seconds > PATIENCE:
            tell(f"auto: {self._words()}", is_wanted)

    def _words(self) -> str:
        parts = []
        if self.n_exact:
            parts.append(f"{_components(self.n_exact)} exactly")
        if self.n_approximate:
            share = f"{self.n_approximate_pairs:,} of {self.n_pairs:,} pairs"
            parts.append(
                f"{_components(self.n_approximate)} ({share}) by belief propagation"
            )
        if self.n_sampled:
            parts.append(f"{self.n_sampled:,} dense squares by samplers")
        words = (
            f"{', '.join(parts)}; {_time(self.seconds)} per evaluation, "
            f"{_time(self.expected_seconds)} for {self.n_evaluations} of them"
        )
        if self.n_approximate:
            words += f", then up to {self.seconds_to_compare:.2g} seconds to check them"
        return words

    def report(self) -> dict[str, Any]:
        """Return what is known before the fit, for `engine_report_`."""
        return {
            "n_exact": self.n_exact,
            "n_approximate": self.n_approximate,
            "n_sampled": self.n_sampled,
            "n_pairs": self.n_pairs,
            "n_approximate_pairs": self.n_approximate_pairs,
            "expected_seconds": self.expected_seconds,
            **_findings(Closer()),
        }

    def compare(self, objective: Comparable, coef: FloatArray) -> dict[str, Any]:
        """Compare approximate marginals at the end with closer ones.

        `coef` are the coefficients, or scores, that the objective is a function of.
        """
        if not self.n_approximate:
            return _findings(Closer())
        seconds = self.seconds_to_compare
        if isinstance(objective, ShardedLikelihood):
            seconds /= objective.n_shards
            found = objective.map(compare_parts, coef, self.engine, seconds)
        else:
            found = [compare_parts(objective, coef, self.engine, seconds)]
        return _findings(Closer.joined(found))


def compare_parts(
    objective: Comparable, coef: FloatArray, engine: FitEngine, seconds: float
) -> Closer:
    """Compare approximate marginals of the parts of an objective with closer ones."""
    job = Job(objective.n_jobs, False)
    time = Allowance(seconds, counts_compiling=True)
    found = []
    problems = objective.problems(coef)
    for k, problem in enumerate(problems):
        found.append(engine.compare(problem, time.left / (len(problems) - k), job))
    return Closer.joined(found)


def _findings(closer: Closer) -> dict[str, Any]:
    return {
        "n_checked": closer.n_checked,
        "largest_difference": closer.largest_difference,
        "largest_error": closer.largest_error,
        "is_certain": closer.is_certain,
    }


def plan_fit(
    auto: AutoEngine,
    data: DataSet | GraphsInParts,
    parameters: Parameters,
    budget: float,
    n_evaluations: int,
    *,
    is_warm: bool = False,
) -> FitPlan:
    """Decide which components to solve exactly, within the budget in seconds.

    `is_warm`: whether scores change little from one evaluation to the next.
    """
    exact_size = min(auto.exact_size, MOST_EXACT)
    if isinstance(data, GraphsInParts):
        parts = data.shards.map(_shard_units, parameters, exact_size)
        units = _Units(*map(np.concatenate, zip(*parts, strict=True)))
    else:
        units = _find_units(with_weight(data), parameters, exact_size)
    n_cells = float(units.n_pairs.sum()) * (parameters.n_edge + parameters.n_nodes)
    allowed = (1.0 - _TO_COMPARE) * budget / n_evaluations
    order = np.sort(units.seconds[np.isfinite(units.seconds)])
    n_within = np.searchsorted(np.cumsum(order), allowed, "right")
    # Below the first that is too much, so that equal ones are treated alike.  Folds of a
    # graph have components of their own, which must not take longer either.
    limit = allowed if n_within == len(order) else np.nextafter(order[n_within], 0.0)
    limit = min(
        max(float(limit), _LEAST_LIMIT), math.inf if auto.budget is None else auto.budget
    )
    is_exact = units.seconds <= limit
    draws = np.array(
        [2.0 ** Nesting().log2_seconds(int(m)) for m in units.sizes[~is_exact]]
    )
    is_dense = units.sizes[~is_exact] > 0
    drawn = float(_SAMPLED * draws[is_dense].sum())
    is_sampled = bool(is_dense.any()) and drawn <= allowed
    cheap = units.cheap_seconds[~is_exact]
    rest = float(cheap[~is_dense].sum()) + (
        drawn if is_sampled else float(cheap[is_dense].sum())
    )
    is_left = ~is_exact & ~((units.sizes > 0) & is_sampled)
    kind = SamplingFitEngine if is_sampled else FitEngine
    return FitPlan(
        kind(auto=auto, limit=limit, is_warm=is_warm),
        budget,
        int(is_exact.sum()),
        int(is_left.sum()),
        int(is_dense.sum()) if is_sampled else 0,
        int(units.n_pairs.sum()),
        int(units.n_pairs[is_left].sum()),
        float(units.seconds[is_exact].sum()) + rest + n_cells * _SECONDS_PER_CELL,
        n_evaluations,
    )


def _shard_units(
    shard: GraphShard, parameters: Parameters, exact_size: int
) -> tuple[FloatArray, ...]:
    units = _find_units(data_set(shard, 1), parameters, exact_size)
    return units.seconds, units.cheap_seconds, units.n_pairs, units.sizes


def _find_units(data: DataSet, parameters: Parameters, exact_size: int) -> _Units:
    graphs, labels, _ = data
    stacked, others = divide(graphs, labels, is_any=parameters.is_any)
    auto = AutoEngine(exact_size=exact_size, budget=None)
    problems = [_sparse_squares(graphs, stacked)]
    dense = [graphs[k].size for k in stacked if graphs[k].allowed is None]
    seconds, cheap, pairs, sizes = [], [], [], []
    for size in dense:
        engine = auto.select(size)
        own = math.inf if engine is None else 2.0 ** engine.log2_seconds(size)
        seconds.append([own])
        cheap.append([2.0 ** Bethe(bounds=False).log2_seconds(size)])
        pairs.append([size**2])
        sizes.append([size])
    if others:
        structure = side_by_side([graphs[k].structure for k in others])
        must = must_match(structure, is_any=parameters.is_any)
        ends = (np.where(own, -np.inf, 0.0) for own in must)
        problems.append(Problem(structure, np.zeros(structure.n_edges), *ends))
    for problem in filter(None, problems):
        n_edges = problem.structure.components.n_edges
        seconds.append(exact_seconds(problem, exact_size)[0])
        cheap.append(n_edges * _SECONDS_PER_BELIEF)
        pairs.append(n_edges)
        sizes.append(np.zeros(len(n_edges)))
    joined = (np.concatenate([np.zeros(0), *own]) for own in (seconds, cheap, pairs, sizes))
    return _Units(*joined)


def _sparse_squares(graphs: Any, stacked: list[int]) -> Problem | None:
    """Return the stacked graphs with forbidden edges as a problem."""
    own = [graphs[k] for k in stacked if graphs[k].allowed is not None]
    if not own:
        return None
    structure = side_by_side([graph.structure for graph in own])
    ends = np.full(structure.n_left, -np.inf), np.full(structure.n_right, -np.inf)
    return Problem(structure, np.zeros(structure.n_edges), *ends)


def _components(number: int) -> str:
    return f"{number:,} component{'s' * (number != 1)}"


def _time(seconds: float) -> str:
    return seconds_in_words(math.log2(max(seconds, 1e-9)))


def is_close(report: dict[str, Any], engine: Any) -> bool:
    """Tell whether all of a fit was exact, or is known to be within the engine's `tol`."""
    is_checked = report["n_checked"] == report["n_approximate"]
    return not report["n_approximate"] or (
        is_checked and report["largest_error"] <= getattr(engine, "tol", 0.0)
    )


def warn_if_approximate(report: dict[str, Any] | None, engine: Any) -> None:
    """Warn the caller of `fit` unless all of it was exact, or close enough."""
    if report is None or is_close(report, engine):
        return
    warn_caller(
        f"the fit is approximate: {in_words(report)}. Raise budget to spend more time, or "
        "set it to None (--budget inf) for no limit.",
        RuntimeWarning,
    )


def in_words(report: dict[str, Any]) -> str:
    """Say what was exact, what was not, and how far off that may be."""
    if not report["n_approximate"] and not report["n_sampled"]:
        return f"{_components(report['n_exact'])} solved exactly"
    if not report["n_approximate"]:
        return (
            f"{_components(report['n_exact'])} solved exactly, {report['n_sampled']:,} "
            "dense squares by samplers"
        )
    share = f"{report['n_approximate_pairs']:,} of {report['n_pairs']:,} pairs"
    exact = f"{_components(report['n_exact'])} solved exactly, " * bool(report["n_exact"])
    words = (
        f"{exact}{_components(report['n_approximate'])} ({share}) approximated by belief "
        "propagation"
    )
    if not report["n_checked"]:
        return f"{words}; by how much its probabilities are off was not measured"
    most = report["largest_error"]
    words += (
        f"; in {report['n_checked']:,} of these, compared at the end, its probabilities "
        f"differ by up to {report['largest_difference']:.2g} from closer ones"
    )
    if most is None or math.isnan(most):
        return f"{words}, whose own error is not known"
    sure = "certainly by at most" if report["is_certain"] else "probably by at most"
    return f"{words}, {sure} {most:.2g} from the true ones"
