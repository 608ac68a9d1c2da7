"""What is known of a matching: pairs that match, pairs that do not, unmatched nodes.

Conditioning on it is leaving out edges: a pair known to match loses all other edges of both
nodes, and neither may stay unmatched; a pair known not to match loses its edge, and a node
known to be unmatched all of its edges.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from permatch._types import BoolArray, IntArray
from permatch._validation import as_index
from permatch.errors import InfeasibleGraphError, InvalidMatchingError
from permatch.problems import Problem

_SIDES = ("left", "right")


@dataclass(frozen=True)
class Known:
    """What is known of the matching of one graph.

    Parameters
    ----------
    matched : mapping from left to right node
        Pairs that are matched; -1 instead of a right node: the left node is unmatched.
    apart : list of pairs (left, right)
        Pairs that are not matched.
    unmatched_left, unmatched_right : list of nodes
        Nodes that have no partner.

    Examples
    --------
    >>> import permatch as pm
    >>> known = pm.Known(matched={0: 2, 1: -1}, apart=[(2, 0)])
    >>> known.matched, known.unmatched_left, known.apart
    ({0: 2}, (1,), ((2, 0),))
    >>> d = pm.MatchingDistribution([[1.0, 2.0], [3.0, 4.0]])
    >>> d.condition(pm.Known(apart=[(0, 0)])).marginals
    array([[0., 1.],
           [1., 0.]])
    """

    matched: Mapping[int, int] = field(default_factory=dict)
    apart: Iterable[tuple[int, int]] = ()
    unmatched_left: Iterable[int] = ()
    unmatched_right: Iterable[int] = ()

    def __post_init__(self) -> None:
        matched = _as_pairs(self.matched)
        alone = {left for left, right in matched.items() if right == -1}
        for side in _SIDES:
            nodes = _as_nodes(getattr(self, f"unmatched_{side}"), side)
            alone = alone | nodes if side == "left" else nodes
            object.__setattr__(self, f"unmatched_{side}", tuple(sorted(alone)))
        pairs = {left: right for left, right in sorted(matched.items()) if right >= 0}
        object.__setattr__(self, "matched", pairs)
        object.__setattr__(self, "apart", _as_apart(self.apart))
        self._check_partners()

    def __bool__(self) -> bool:
        return bool(
            self.matched or self.apart or self.unmatched_left or self.unmatched_right
        )

    def __hash__(self) -> int:
        return hash((tuple(self.matched.items()), *list(vars(self).values())[1:]))

    def __repr__(self) -> str:
        parts = [
            f"{name}={list(value) if isinstance(value, tuple) else value}"
            for name, value in vars(self).items()
            if value
        ]
        return f"Known({', '.join(parts)})"

    @property
    def short(self) -> "Known | Mapping[int, int]":
        """The mapping alone if it says all."""
        return self.matched if self == Known(self.matched) else self

    def _check_partners(self) -> None:
        """Refuse what contradicts itself."""
        partner: dict[int, int] = {}
        for left, right in self.matched.items():
            if right in partner:
                raise InvalidMatchingError(
                    "given must match every right node at most once; right node "
                    f"{right} is matched to {partner[right]} and to {left}. Drop one pair."
                )
            partner[right] = left
            if (left, right) in set(self.apart):
                raise InvalidMatchingError(
                    f"a pair is matched or apart, not both; given names ({left}, {right}) "
                    "in both. Drop it from one of them."
                )
        for side, nodes in (("left", self.matched), ("right", partner)):
            for node in getattr(self, f"unmatched_{side}"):
                if node in nodes:
                    raise InvalidMatchingError(
                        f"a node is matched or unmatched, not both; given names {side} "
                        f"node {node} in both. Drop it from one of them."
                    )

    def joined(self, other: "Known") -> "Known":
        """Return all that is known, by this and by another.

        Parameters
        ----------
        other : Known
            Must not contradict this one.

        Returns
        -------
        Known
            Both.
        """
        clash = {
            left: right
            for left, right in other.matched.items()
            if self.matched.get(left, right) != right
        }
        if clash:
            raise InvalidMatchingError(
                "given edges must agree with those already given, "
                f"{self.matched}; got {clash}. Start from a distribution without them."
            )
        return Known(
            {**self.matched, **other.matched},
            (*self.apart, *other.apart),
            (*self.unmatched_left, *other.unmatched_left),
            (*self.unmatched_right, *other.unmatched_right),
        )


def check_known(given: Any, problem: Problem) -> Known:
    """Return what is known of a problem with one graph; a mapping is the short form."""
    if given is None:
        return _NOTHING
    if not isinstance(given, Known):
        if not isinstance(given, Mapping):
            raise InvalidMatchingError(
                "given must be a mapping from left to right node, such as {0: 2}, or "
                f"permatch.Known(...); got {given!r}."
            )
        given = Known(given)
    structure = problem.structure
    sizes = {"left": structure.n_left, "right": structure.n_right}
    named = {
        "left": [*given.matched, *given.unmatched_left, *(i for i, _ in given.apart)],
        "right": [
            *given.matched.values(),
            *given.unmatched_right,
            *(j for _, j in given.apart),
        ],
    }
    for side, nodes in named.items():
        for node in nodes:
            if node >= sizes[side]:
                raise InvalidMatchingError(
                    f"given must name {side} nodes 0 .. {sizes[side] - 1}; got {node}."
                )
    for side in _SIDES:
        score = getattr(problem, f"unmatched_{side}")
        for node in getattr(given, f"unmatched_{side}"):
            if score[node] == -np.inf:
                raise InfeasibleGraphError(
                    f"a node given as unmatched must be allowed to be; {side} node {node} "
                    f"must be matched. Drop it from given, or give unmatched_{side} a "
                    "finite score."
                )
    for left, right in given.matched.items():
        first, last = structure.starts[left : left + 2]
        if right not in structure.right[first:last]:
            raise InfeasibleGraphError(
                f"a given edge must be allowed; edge ({left}, {right}) has score -inf. "
                "Drop it from `given`, or give it a score."
            )
    return given


def condition(problem: Problem, known: Known) -> tuple[Problem, BoolArray]:
    """Return a problem with one graph, given what is known, and the edges it keeps."""
    partners = np.full(problem.structure.n_left, -2)
    alone = np.zeros(problem.structure.n_right, dtype=bool)
    apart = np.zeros(problem.structure.n_edges, dtype=bool)
    partners[list(known.unmatched_left)] = -1
    for left, right in known.matched.items():
        partners[left] = right
    alone[list(known.unmatched_right)] = True
    for left, right in known.apart:
        first, last = problem.structure.starts[left : left + 2]
        apart[first:last] |= problem.structure.right[first:last] == right
    return restrict(problem, partners, apart, alone)


def restrict(
    problem: Problem,
    partners: IntArray,
    is_apart: BoolArray | None = None,
    is_alone: BoolArray | None = None,
) -> tuple[Problem, BoolArray]:
    """Return a problem given part of its matching, and the edges it keeps.

    Parameters
    ----------
    problem : Problem
        Any number of graphs.
    partners : ndarray of shape (n_left,)
        The right node of every left node, numbered as in the problem; -1: known to be
        unmatched, -2: not known.
    is_apart : ndarray of shape (n_edges,), optional
        Edges known not to be matched.
    is_alone : ndarray of shape (n_right,), optional
        Right nodes known to be unmatched.

    Returns
    -------
    problem : Problem
        The same nodes, fewer edges.  Its log-partition is that of all matchings that agree.
    is_kept : ndarray of shape (n_edges,)
        The edges it has.
    """
    structure = problem.structure
    holders = np.full(structure.n_right, -2)
    if is_alone is not None:
        holders[is_alone] = -1
    (taken,) = np.nonzero(partners >= 0)
    holders[partners[taken]] = taken
    own, theirs = partners[structure.left], holders[structure.right]
    is_kept = ((own == -2) | (own == structure.right)) & (
        (theirs == -2) | (theirs == structure.left)
    )
    if is_apart is not None:
        is_kept &= ~is_apart
    conditioned = replace(
        problem,
        unmatched_left=np.where(partners >= 0, -np.inf, problem.unmatched_left),
        unmatched_right=np.where(holders >= 0, -np.inf, problem.unmatched_right),
    )
    return conditioned.kept(is_kept), is_kept


def _as_pairs(matched: Any) -> dict[int, int]:
    """Return a mapping of node numbers; -1 may be a value."""
    if not isinstance(matched, Mapping):
        raise InvalidMatchingError(
            f"matched must be a mapping from left to right node, such as {{0: 2}}; got "
            f"{matched!r}."
        )
    return {
        _as_node(left, "left"): _as_node(right, "right", -1)
        for left, right in matched.items()
    }


def _as_nodes(nodes: Any, side: str) -> set[int]:
    if isinstance(nodes, str) or not isinstance(nodes, Iterable):
        raise InvalidMatchingError(
            f"unmatched_{side} must be a list of nodes, such as [0, 4]; got {nodes!r}."
        )
    return {_as_node(node, side) for node in nodes}


def _as_apart(pairs: Any) -> tuple[tuple[int, int], ...]:
    found = set()
    try:
        for left, right in pairs:
            found.add((_as_node(left, "left"), _as_node(right, "right")))
    except (TypeError, ValueError) as err:
        if isinstance(err, InvalidMatchingError):
            raise
        raise InvalidMatchingError(
            f"apart must be a list of pairs (left, right), such as [(0, 2)]; got {pairs!r}."
        ) from err
    return tuple(sorted(found))


def _as_node(node: Any, side: str, lowest: int = 0) -> int:
    number = as_index(node)
    if number is None or number < lowest:
        also = ", or -1 for unmatched" if lowest < 0 else ""
        raise InvalidMatchingError(
            f"given must name {side} nodes by their number, from 0 on{also}; got {node!r}."
        )
    return number


_NOTHING = Known()
