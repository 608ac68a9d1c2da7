"""How marginals change with scores: their derivatives in any number of directions.

    d marginals / dt = Cov(y) direction,    y the edges and unmatched nodes of a matching,

for scores that move along a direction on edges and on unmatched nodes.  With the features
of edges and nodes for directions these are the products that second derivatives of a
likelihood consist of, and with the derivatives of scores by the weights of a model they
tell how sure each probability is (the delta method).

They are those of the exact distribution, component by component; `method` says how they
were found:

"dual numbers"
    The walk of `Frontier` with derivatives carried along, eight directions at a time: about
    20 times as long as inference.  Only positive sums.
"pair minors"
    All second derivatives of the permanent in one walk of `Glynn`, whatever the number of
    directions: about 0.8 m times as long as inference.  For squares whose nodes must all
    be matched.  Signed sums, which are checked; where they lose digits, dual numbers.

No array of edges x edges is made.
"""

from dataclasses import dataclass

import numpy as np

from permatch._parallel import Job
from permatch._types import BoolArray, FloatArray
from permatch.assignment import Assignment, best_assignment
from permatch.errors import CapacityError
from permatch.inference.components import perfect_components
from permatch.inference.exact import EXACT_TOL
from permatch.inference.pair_minors import seconds_of_minors, tangents_by_minors
from permatch.inference.tangent_walks import (
    Columns,
    seconds_of_walks,
    tangents_by_walks,
)
from permatch.problems import Problem

DUAL, MINORS = "dual numbers", "pair minors"
# Doubles of directions that are copied for squares of one size at a time.
_MOST_COPIED = 1 << 23


@dataclass(frozen=True, eq=False)
class Directions:
    """K directions in which the scores of a problem move.

    Attributes
    ----------
    edges : ndarray of shape (n_edges, K)
        On the scores of edges.
    left, right : ndarray of shape (n_left, K), (n_right, K)
        On the scores of staying unmatched; nodes that must be matched may have any.
    """

    edges: FloatArray
    left: FloatArray
    right: FloatArray


@dataclass(frozen=True, eq=False)
class Tangents:
    """Derivatives of marginals in K directions.

    Attributes
    ----------
    edges : ndarray of shape (n_edges, K)
        Of the marginals of edges.
    left, right : ndarray of shape (n_left, K), (n_right, K)
        Of the probabilities of staying unmatched.
    method : str
        How they were computed: "dual numbers", "pair minors", or both.
    """

    edges: FloatArray
    left: FloatArray
    right: FloatArray
    method: str


def infer_tangents(problem: Problem, directions: Directions, job: Job) -> Tangents:
    """Return the derivatives of all marginals of a problem in some directions.

    Parameters
    ----------
    problem : Problem
        Any number of graphs.
    directions : Directions
        On its edges and unmatched nodes.
    job : Job
        Threads; the result does not depend on them.

    Returns
    -------
    Tangents
        As long as the directions.

    Raises
    ------
    SizeLimitError
        If a component is too wide for exact derivatives.

    Examples
    --------
    >>> import numpy as np
    >>> from permatch._parallel import Job
    >>> from permatch.scores import check_problem
    >>> problem, _ = check_problem(np.zeros((1, 1)), 0.0, 0.0)
    >>> ones = np.ones((1, 1))
    >>> found = infer_tangents(problem, Directions(ones, 0 * ones, 0 * ones), Job())
    >>> found.edges, found.left, found.method  # p (1 - p) of the only edge
    (array([[0.25]]), array([[-0.25]]), 'dual numbers')
    """
    if problem.has_capacities:
        raise CapacityError(
            "derivatives of marginals need nodes with at most one partner; this problem "
            "has capacities above 1. Set capacity_left and capacity_right to None."
        )
    best = best_assignment(problem)
    along = _centred(problem, directions, best)
    out = tuple(np.zeros_like(one) for one in along)
    is_left = np.ones(len(problem.structure.components), dtype=bool)
    methods = set()
    by_minors = _choose_minors(problem, along[0].shape[1])
    if by_minors.any():
        is_done = _solve_squares(best.reduced, by_minors, along[0], out[0], job)
        is_left &= ~is_done
        methods |= {MINORS} if is_done.any() else set()
    if is_left.all():
        methods.add(DUAL)
        out = tangents_by_walks(best.reduced, along, job)
    elif is_left.any():
        methods.add(DUAL)
        part = best.reduced.select(np.nonzero(is_left)[0])
        places = part.edges, part.left, part.right
        own: Columns = (along[0][part.edges], along[1][part.left], along[2][part.right])
        found = tangents_by_walks(part.problem, own, job)
        for whole, place, values in zip(out, places, found, strict=True):
            whole[place] = values
    return Tangents(*out, " and ".join(sorted(methods)))


def _centred(problem: Problem, directions: Directions, best: Assignment) -> Columns:
    """Return directions that are 0 on the best matching, with the same derivatives.

    Every matching has each left node once, matched or not, and likewise each right one: a
    shift of all its directions moves the scores of all matchings alike.  What all have in
    common would cancel, at the cost of digits.
    """
    structure = problem.structure
    left = np.where((problem.unmatched_left > -np.inf)[:, None], directions.left, 0.0)
    right = np.where((problem.unmatched_right > -np.inf)[:, None], directions.right, 0.0)
    nodes = np.nonzero(best.matching >= 0)[0]
    chosen = structure.find(nodes, best.matching[nodes])
    shift = left.copy()
    shift[nodes] = directions.edges[chosen]
    is_free = np.ones(structure.n_right, dtype=bool)
    is_free[best.matching[nodes]] = False
    other = np.where(is_free[:, None], right, 0.0)
    edges = directions.edges - shift[structure.left] - other[structure.right]
    return edges, left - shift, right - other


def _choose_minors(problem: Problem, n_columns: int) -> BoolArray:
    """Return the components that take less time by pair minors than by dual numbers."""
    sizes, _ = problem.structure.components.sizes
    is_perfect = perfect_components(problem)
    if not is_perfect.any() or not n_columns:
        return np.zeros(len(sizes), dtype=bool)
    known = {m: seconds_of_minors(m, n_columns) for m in np.unique(sizes).tolist()}
    seconds = np.array([known[m] for m in sizes.tolist()])
    return is_perfect & (seconds < seconds_of_walks(problem.structure, n_columns))


def _solve_squares(
    problem: Problem,
    chosen: BoolArray,
    directions: FloatArray,
    out: FloatArray,
    job: Job,
) -> BoolArray:
    """Fill the derivatives of some square components; return which kept their digits."""
    sizes, _ = problem.structure.components.sizes
    is_done = chosen.copy()
    n_columns = directions.shape[1]
    for size in np.unique(sizes[chosen]).tolist():
        (own,) = np.nonzero(chosen & (sizes == size))
        at_once = max(1, _MOST_COPIED // (size * size * n_columns))
        for first in range(0, len(own), at_once):
            some = own[first : first + at_once]
            part = problem.select(some)
            inner = part.problem.structure
            graphs = inner.graph_of_left[inner.left]
            rows, cols = inner.left % size, inner.right % size
            scores = np.full((len(some), size, size), -np.inf)
            scores[graphs, rows, cols] = part.problem.scores
            along = np.zeros((len(some), size * size, n_columns))
            along[graphs, rows * size + cols] = directions[part.edges]
            found, residuals = tangents_by_minors(scores, along, job)
            out[part.edges] = found[graphs, rows * size + cols]
            is_done[some] = residuals <= EXACT_TOL
    return is_done
