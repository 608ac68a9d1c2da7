"""The best matchings of single components, with their probabilities."""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from permatch._parallel import Job
from permatch._types import FloatArray, IntArray
from permatch.decoding.kbest import k_best_matchings
from permatch.inference import Frontier
from permatch.kernels.frontier_plan import frontier_plan
from permatch.pages.match_view import MatchView

#: Components whose best matchings a page lists, the most uncertain first.
MAX_COMPONENTS = 500
#: Most nodes of the larger side of a component whose best matchings are searched.
MAX_NODES = 200
# Components up to this width have their log-partition in no time.
_NARROW = 12


@dataclass(frozen=True, eq=False)
class Alternatives:
    """The best matchings of a component, best first.

    Attributes
    ----------
    links : list of ndarray
        The pairs that each of them links, by their numbers in the view.
    losses : ndarray
        What each loses to the best, in log-probability.
    log_probs : ndarray or None
        Logarithms of their probabilities, if known.
    """

    links: list[IntArray]
    losses: FloatArray
    log_probs: FloatArray | None


def find_alternatives(
    view: MatchView, components: Iterable[int]
) -> dict[int, Alternatives]:
    """Return the best matchings of the first components that are not too large."""
    structure = view.structure
    if view.problem.has_capacities:  # they are for matchings
        return {}
    sizes = [np.diff(ends) for ends in (structure.left_starts, structure.right_starts)]
    is_small = np.maximum(*sizes) <= MAX_NODES
    chosen = [c for c in components if is_small[c]][:MAX_COMPONENTS]
    logs = _log_partitions(view, np.array(chosen, dtype=np.int64))
    return {c: _best_of(view, c, logs[k]) for k, c in enumerate(chosen)}


def _log_partitions(view: MatchView, chosen: IntArray) -> FloatArray:
    """Return the log-partitions of some components; NaN where that would take long."""
    if view.log_partitions is not None:
        return view.log_partitions[chosen]
    logs = np.full(len(chosen), np.nan)
    part = view.problem.select(chosen).problem
    is_narrow = frontier_plan(part.structure).width <= _NARROW
    some = np.flatnonzero(is_narrow)
    if len(some):
        solved = Frontier().infer_problem(part.select(some).problem, Job())
        logs[some] = solved.log_partition
    return logs


def _best_of(view: MatchView, c: int, log_partition: float) -> Alternatives:
    structure = view.structure
    best = k_best_matchings(view.problem.graph(c), view.n_best)
    first_left, first_right = structure.left_starts[c], structure.right_starts[c]
    links = []
    for matching in best.matchings:
        nodes = np.flatnonzero(matching >= 0)
        links.append(structure.find(first_left + nodes, first_right + matching[nodes]))
    logs = None if np.isnan(log_partition) else best.scores - log_partition
    return Alternatives(links, best.scores[0] - best.scores, logs)
