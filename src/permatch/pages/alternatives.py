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
#: Most links in which all these matchings differ from the best, some 400 kB of the page.
MAX_CHANGES = 60_000
#: Most nodes of the larger side of a component whose best matchings are searched.
MAX_NODES = 200
# Components up to this width have their log-partition in no time.
_NARROW = 12


@dataclass(frozen=True, eq=False)
class Alternatives:
    """The best matchings of a component, best first.

    Attributes
    ----------
    first : ndarray
        The pairs that the best one links, by their numbers in the view.
    changes : list of ndarray
        The pairs that each of the others links instead, or does not.
    losses : ndarray
        What each loses to the best, in log-probability.
    log_probs : ndarray or None
        Logarithms of their probabilities, if known.
    """

    first: IntArray
    changes: list[IntArray]
    losses: FloatArray
    log_probs: FloatArray | None


def find_alternatives(
    view: MatchView, components: Iterable[int]
) -> dict[int, Alternatives]:
    """Return the best matchings of the first components that are not too large."""
    structure = view.structure
    if view.problem.has_capacities:  # sets of links are then no matchings
        return {}
    sizes = [np.diff(ends) for ends in (structure.left_starts, structure.right_starts)]
    is_small = np.maximum(*sizes) <= MAX_NODES
    chosen = [c for c in components if is_small[c]][:MAX_COMPONENTS]
    logs = _log_partitions(view, np.array(chosen, dtype=np.int64))
    found: dict[int, Alternatives] = {}
    n_changes = 0
    for c, log_partition in zip(chosen, logs.tolist(), strict=True):
        own = _best_of(view, c, log_partition)
        n_changes += sum(len(changes) for changes in own.changes)
        if found and n_changes > MAX_CHANGES:
            break
        found[c] = own
    return found


def why_missing(view: MatchView, n_found: int) -> tuple[str, str]:
    """Say why a component has no list: one too large, and any other."""
    if view.problem.has_capacities:
        words = f"Not computed: {view.node}s may have several links."
        return words, words
    return (
        f"Not computed: more than {MAX_NODES} {view.node}s on a side.",
        f"Not computed: the page lists them for the {n_found:,} least certain components.",
    )


def _log_partitions(view: MatchView, chosen: IntArray) -> FloatArray:
    """Return the log-partitions of some components; NaN where that would take long."""
    logs = np.full(len(chosen), np.nan)
    if view.log_partitions is not None:
        logs = view.log_partitions[chosen]
    unknown = np.flatnonzero(np.isnan(logs))
    if not len(unknown):
        return logs
    part = view.problem.select(chosen[unknown]).problem
    is_narrow = frontier_plan(part.structure).width <= _NARROW
    some = np.flatnonzero(is_narrow)
    if len(some):
        solved = Frontier().infer_problem(part.select(some).problem, Job())
        logs[unknown[some]] = solved.log_partition
    return logs


def _best_of(view: MatchView, c: int, log_partition: float) -> Alternatives:
    structure = view.structure
    best = k_best_matchings(view.problem.graph(c), view.n_best)
    first_left, first_right = structure.left_starts[c], structure.right_starts[c]
    links = []
    for matching in best.matchings:
        nodes = np.flatnonzero(matching >= 0)
        links.append(structure.find(first_left + nodes, first_right + matching[nodes]))
    changes = [np.setxor1d(links[0], others) for others in links[1:]]
    logs = None if np.isnan(log_partition) else best.scores - log_partition
    return Alternatives(links[0], changes, best.scores[0] - best.scores, logs)
