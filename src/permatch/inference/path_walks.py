"""The links of a partial problem as `kernels.path_tree` walks them, and its walks."""

import math
from dataclasses import dataclass
from weakref import WeakKeyDictionary

import numpy as np

from permatch._parallel import Allowance, Job, run_slices
from permatch._types import FloatArray, IntArray
from permatch.kernels.path_links import NODE, Tree, lay_links, order_nodes, pass_bounds
from permatch.kernels.path_tree import MOST_DEPTH, Space, bound_roots
from permatch.problems import Problem, Structure

# Odds below exp(-690) change no other probability by more than a rounding; above exp(690)
# logarithms are used.
_SMALLEST, _LARGEST = -690.0, 690.0
# Stands for the logarithm of odds that are as good as none.
_LEAST = -1e4
#: More than what odds that small add to any probability.
TINY = 1e-290
#: Half the distance of two float64 at 1.
ROUNDING = 2.0**-53
# Levels of the tree that are not counted: the root, its links, what is known at a cut.
_MORE_LEVELS = 5
# Few paths that matter are longer.
_FEW_LEVELS = 40
# Nodes of a task.
_ROOTS_PER_TASK = 512
# Within a budget, nodes are first given few steps each, then so many times as many.
_FIRST_STEPS, _MORE_STEPS = 64, 8


@dataclass(frozen=True, eq=False)
class Plan:
    """The links of a structure: two for each edge, from either node to the other.

    Attributes
    ----------
    starts : ndarray of shape (n_nodes + 1,)
        The links of node v are ``starts[v]:starts[v + 1]``.
    nodes, twins : ndarray of shape (n_links,)
        The node a link leads to, and the link back.
    edges : ndarray of shape (n_links,)
        Its edge.
    from_left, from_right : ndarray of shape (n_edges,)
        The links of every edge.
    left, right : ndarray of shape (n_left,), (n_right,)
        The numbers of the nodes of either side among all nodes.
    """

    starts: IntArray
    nodes: IntArray
    edges: IntArray
    twins: IntArray
    from_left: IntArray
    from_right: IntArray
    left: IntArray
    right: IntArray

    @classmethod
    def build(cls, structure: Structure) -> "Plan":
        """Return the plan of a structure, made once."""
        found = _plans.get(structure)
        if found is None:
            found = _plans[structure] = cls._build(structure)
        return found

    @classmethod
    def _build(cls, structure: Structure) -> "Plan":
        right_starts, right_edges = structure.by_right
        lefts = structure.left[right_edges]
        order = order_nodes(structure.starts, structure.right, right_starts, lefts)
        starts, nodes, edges, twins = lay_links(
            structure.starts, structure.right, right_starts, right_edges, lefts, order
        )
        place = np.empty_like(order)
        place[order] = np.arange(len(order))
        is_left = np.repeat(order < structure.n_left, np.diff(starts))
        from_left = np.empty(structure.n_edges, dtype=np.int64)
        from_left[edges[is_left]] = np.nonzero(is_left)[0]
        left, right = place[: structure.n_left], place[structure.n_left :]
        return cls(starts, nodes, edges, twins, from_left, twins[from_left], left, right)

    @property
    def largest_degree(self) -> int:
        """Most links of a node."""
        return int(np.diff(self.starts).max(initial=0))


_plans: WeakKeyDictionary[Structure, Plan] = WeakKeyDictionary()


@dataclass(frozen=True, eq=False)
class Walks:
    """What walks from some nodes have found, before rounding is accounted for.

    Attributes
    ----------
    roots : ndarray
        The nodes walked from.
    shares : ndarray of shape (n_links, 3)
        Lower end, upper end and an estimate of the probability of the links of roots.
    totals : ndarray of shape (n_nodes, 3)
        Likewise of minus the log-probability that a root stays unmatched.
    widths : ndarray of shape (n_nodes,)
        Of the intervals.
    counts : ndarray of shape (n_nodes, 2)
        Steps taken, and the longest path.
    margins : ndarray of shape (n_nodes,)
        Ends of intervals may be off by this share.
    """

    roots: IntArray
    shares: FloatArray
    totals: FloatArray
    widths: FloatArray
    counts: IntArray
    margins: FloatArray


class Walker:
    """Walks along the links of a problem whose unmatched scores are finite."""

    def __init__(self, problem: Problem) -> None:
        structure = problem.structure
        self.plan = plan = Plan.build(structure)
        one, other = problem.unmatched_left, problem.unmatched_right
        odds = problem.scores - one[structure.left] - other[structure.right]
        parts = np.abs(problem.scores) + np.abs(one[structure.left])
        parts += np.abs(other[structure.right])
        # Differences of scores are rounded twice.
        off = 2.0 * ROUNDING * parts
        is_none = odds + off < _SMALLEST
        self.odds = np.where(is_none, _LEAST, odds)
        error = float(off[~is_none].max(initial=0.0)) + 4.0 * ROUNDING
        largest = float((self.odds + off).max(initial=0.0))
        is_log = largest > _LARGEST
        links = np.empty((len(plan.nodes), 5))
        links[:, NODE] = plan.nodes
        odds = (self.odds if is_log else np.exp(self.odds))[plan.edges]
        nobody = np.zeros(len(plan.starts) - 1, dtype=bool)
        self.tree = Tree(plan.starts, links, nobody, is_log)
        pass_bounds(self.tree, odds, plan.twins)
        degree = plan.largest_degree
        per_sum = 2.0 * ROUNDING * (degree + 4)
        size = max(largest, 100.0) + math.log(degree + 1)
        #: What rounding adds at every level, and at the end.
        self.per_level = error + per_sum * (2.0 * size if is_log else 1.0)
        self.at_end = per_sum + 8.0 * ROUNDING * (size - _SMALLEST)
        self._spaces: list[Space] = []

    def walk(
        self,
        roots: IntArray,
        tol: float,
        max_steps: int,
        time: Allowance,
        job: Job,
        *,
        is_ordered: bool = False,
        spare: float = 0.0,
        seconds: float = 0.0,
        is_kept: bool = False,
    ) -> Walks:
        """Bound some nodes and their edges until intervals are at most `tol` wide.

        Ordered, every root is walked from without the roots numbered below it, and the
        intervals are those of the log-probability.  Of the time, `spare` seconds are left.
        If what is found `is_kept`, Ctrl-C after the first round ends the time, and no more.
        """
        n_nodes = len(self.plan.starts) - 1
        tree = self.tree
        if is_ordered:
            may_go = np.zeros(n_nodes, dtype=bool)
            may_go[roots] = True
            tree = tree._replace(may_go=may_go)
        shares = np.zeros((0 if is_ordered else len(self.plan.nodes), 3))
        totals, widths = np.zeros((n_nodes, 3)), np.zeros(n_nodes)
        counts = np.zeros((n_nodes, 2), dtype=np.int64)
        ahead = np.sort(roots)
        for limit in _limits(max_steps, is_rounds=is_kept or time.budget < math.inf):

            def bound(some: IntArray, limit: int = limit) -> None:
                space = self._spaces.pop() if self._spaces else self._new_space()

                def walk(first: int, last: int) -> bool:
                    if limit > 0 and time.left <= spare:
                        return True
                    bound_roots(
                        tree, space, some[first:last], is_ordered, tol, limit, shares,
                        totals, widths, counts,
                    )  # fmt: skip
                    return False

                run_slices(walk, len(some))
                self._spaces.append(space)

            pieces = np.split(ahead, range(_ROOTS_PER_TASK, len(ahead), _ROOTS_PER_TASK))
            try:
                job.run(lambda k: bound(pieces[k]), len(pieces), "paths", seconds)  # noqa: B023
            except KeyboardInterrupt:
                if not is_kept or limit == 0:
                    raise
                time.end()
            ahead = ahead[widths[ahead] > tol]
            if not len(ahead) or time.left <= spare:
                break
        margins = np.full(n_nodes, self.at_end)
        margins += (counts[:, 1] + _MORE_LEVELS) * self.per_level
        return Walks(roots, shares, totals, widths, counts, margins)

    def leaving_room(self, tol: float) -> float:
        """Return the width to walk to, so that with roundings it is at most `tol`."""
        rounding = _FEW_LEVELS * self.per_level + self.at_end
        return max(0.5 * tol, 0.999 * tol - 4.0 * rounding)

    def _new_space(self) -> Space:
        n_nodes, n_links = len(self.plan.starts) - 1, len(self.plan.nodes)
        deepest = min(n_nodes, MOST_DEPTH) + 1
        return Space(
            np.zeros(n_nodes, dtype=np.uint16),
            np.empty((deepest, 2), dtype=np.int64),
            np.empty((deepest, 5)),
            np.empty(n_links + 1, dtype=np.int64),
            np.empty((self.plan.largest_degree, 3)),
            np.zeros(3, dtype=np.int64),
        )


def _limits(max_steps: int, *, is_rounds: bool) -> list[int]:
    """Return the steps that nodes are given, one round after the other."""
    if not is_rounds:
        return [max_steps]
    limits, steps = [0], _FIRST_STEPS
    while steps < max_steps:
        limits.append(steps)
        steps *= _MORE_STEPS
    return [*limits, max_steps]
