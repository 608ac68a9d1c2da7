"""Nodes with room for several links: which of them have to be counted at all.

A node whose capacity is at least its number of edges sets its links no limit, and with an
unmatched score of 0 nothing else joins them: it falls apart into copies.  It needs one for
every component that is left once all such nodes have fallen apart.  What is left may be a
matching again, which any engine solves, and components are smaller than they were.
The node is unmatched if all its copies are, and those are independent.
"""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from permatch._score_checks import order_edges
from permatch._types import BoolArray, FloatArray, IntArray
from permatch.assignment import best_assignment
from permatch.errors import CapacityError, InfeasibleGraphError
from permatch.inference.answer import InferenceResult
from permatch.kernels.components import label_components
from permatch.problems import Problem, Structure, above_one


@dataclass(frozen=True, eq=False)
class Loosened:
    """A problem whose nodes without a limit have fallen apart into copies.

    Attributes
    ----------
    problem : Problem
        Of the copies, with capacities of at most the number of edges; those of copies with
        a single edge are 1.
    edges : ndarray of shape (n_edges,)
        Which edge of the whole each of its edges is.
    left, right : ndarray
        Which node each of its nodes is a copy of, ascending.
    """

    problem: Problem
    edges: IntArray
    left: IntArray
    right: IntArray

    def on_edges(self, values: Any) -> Any:
        """Return values on the edges of the copies as ones on those of the whole."""
        placed = np.empty_like(values)
        placed[self.edges] = values
        return placed

    def on_left(self, values: FloatArray) -> FloatArray:
        """Return the probability that all copies of each left node are unmatched."""
        return _product(values, self.left)

    def on_right(self, values: FloatArray) -> FloatArray:
        """Return the probability that all copies of each right node are unmatched."""
        return _product(values, self.right)

    def restored(self, answer: InferenceResult) -> InferenceResult:
        """Return an answer for the copies as one for the nodes."""

        def ends(pair: Any, place: Any) -> Any:
            return None if pair is None else tuple(map(place, pair))

        def given(values: Any) -> Any:
            return self.on_edges(values) if np.ndim(values) else values

        return replace(
            answer,
            marginals=given(answer.marginals),
            marginal_errors=given(answer.marginal_errors),
            unmatched_left=self.on_left(answer.unmatched_left),
            unmatched_right=self.on_right(answer.unmatched_right),
            marginal_bounds=ends(answer.marginal_bounds, self.on_edges),
            unmatched_left_bounds=ends(answer.unmatched_left_bounds, self.on_left),
            unmatched_right_bounds=ends(answer.unmatched_right_bounds, self.on_right),
        )


def _product(values: Any, owners: IntArray) -> FloatArray:
    """Return the product of the values of every owner, given in order."""
    if not len(owners):
        return np.zeros(0)
    firsts = np.nonzero(np.diff(owners, prepend=-1))[0]
    return np.multiply.reduceat(np.broadcast_to(values, owners.shape), firsts)


def loosen(problem: Problem) -> Loosened:
    """Return a problem in which only nodes that must be counted have room for two links."""
    structure = problem.structure
    nodes = structure.left, structure.right
    component, (free_left, free_right) = _fallen_apart(problem)
    keys = [
        own * (component.max(initial=0) + 1) + np.where(free[own], component, 0)
        for own, free in zip(nodes, (free_left, free_right), strict=True)
    ]
    left, own_left = _copies(keys[0], nodes[0], structure.n_left)
    right, own_right = _copies(keys[1], nodes[1], structure.n_right)
    edges = order_edges(own_left, own_right, (len(left), len(right)))
    counts = np.bincount(own_left, minlength=len(left))
    copies = Structure(
        np.concatenate([[0], np.cumsum(counts)]),
        own_right[edges],
        np.searchsorted(left, structure.left_starts),
        np.searchsorted(right, structure.right_starts),
    )
    degrees = counts, np.bincount(own_right, minlength=len(right))
    loose = Problem(
        copies,
        problem.scores[edges],
        problem.unmatched_left[left],
        problem.unmatched_right[right],
        _clipped(problem.capacity_left, left, degrees[0]),
        _clipped(problem.capacity_right, right, degrees[1]),
    )
    return Loosened(loose, edges, left, right)


def _fallen_apart(problem: Problem) -> tuple[IntArray, list[BoolArray]]:
    """Return the component of every edge once all nodes without a limit are taken apart.

    And which nodes of either side are such.
    """
    structure = problem.structure
    starts, order = structure.by_right
    ranks = np.empty(structure.n_edges, np.int64)
    ranks[order] = structure.all_edges - np.repeat(starts[:-1], np.diff(starts))
    sides = (
        (structure.starts, structure.left, problem.unmatched_left, problem.capacity_left),
        (starts, structure.right, problem.unmatched_right, problem.capacity_right),
    )
    ends, is_free = [], []
    for k, (own_starts, nodes, unmatched, capacity) in enumerate(sides):
        degree = np.diff(own_starts)
        free = (unmatched == 0.0) & (degree <= (1 if capacity is None else capacity))
        first = np.cumsum(np.where(free, np.maximum(degree, 1), 1))
        first = np.concatenate([[0], first])
        rank = ranks if k else structure.all_edges - own_starts[nodes]
        ends.append((first[nodes] + np.where(free[nodes], rank, 0), int(first[-1])))
        is_free.append(free)
    (left, n_left), (right, n_right) = ends
    own_starts = np.concatenate([[0], np.cumsum(np.bincount(left, minlength=n_left))])
    of_left, of_right = np.empty(n_left, np.int64), np.empty(n_right, np.int64)
    label_components(own_starts, right, of_left, of_right)
    return of_left[left], is_free


def _copies(keys: IntArray, nodes: IntArray, n: int) -> tuple[IntArray, IntArray]:
    """Return which node each copy belongs to, and the copy of every edge.

    Edges with one key have one copy; a node without edges is its own.
    """
    found, first, places = np.unique(keys, return_index=True, return_inverse=True)
    owners = nodes[first]
    alone = np.setdiff1d(np.arange(n), owners)
    order = np.argsort(np.concatenate([owners, alone]), kind="stable")
    number = np.empty(len(order), np.int64)
    number[order] = np.arange(len(order))
    return np.concatenate([owners, alone])[order], number[: len(found)][places]


def _clipped(
    capacity: IntArray | None, nodes: IntArray, degree: IntArray
) -> IntArray | None:
    """Return the capacities of copies, at most the number of their edges, at least 1."""
    if capacity is None:
        return None
    return above_one(np.maximum(np.minimum(capacity[nodes], degree), 1))


def counted_components(problem: Problem) -> BoolArray:
    """Return which components have a node with room for more than one link."""
    found = problem.structure.components
    is_counted = np.zeros(len(found), dtype=np.bool_)
    for labels, capacity in (
        (found.of_left, problem.capacity_left),
        (found.of_right, problem.capacity_right),
    ):
        if capacity is not None:
            is_counted[labels[(capacity > 1) & (labels >= 0)]] = True
    return is_counted


def refuse_counting(problem: Problem, name: str) -> None:
    """Refuse nodes that must be counted, on behalf of an engine that knows one link."""
    if problem.has_capacities:
        raise CapacityError(
            f"{name} handles matchings, in which no node has two links; here nodes may "
            "have several (capacity_left, capacity_right). Use engine='frontier', which "
            "counts them, or engine='auto'."
        )


def infeasible(problem: Problem) -> InfeasibleGraphError:
    """Return the error to raise for a problem without a set of links that is allowed.

    Then there is no matching either, and the error of that names graph and node.
    """
    try:
        best_assignment(problem)
    except InfeasibleGraphError as err:
        return InfeasibleGraphError(
            f"{err} The capacities are too low as well; raising them may help."
        )
    raise AssertionError("a matching is a set of links that capacities allow")
