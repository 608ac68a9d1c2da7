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
"exact samples"
    For components too large for either of which exact samples can be drawn: estimates, with
    their relative standard error.

No array of edges x edges is made.
"""

from dataclasses import dataclass

import numpy as np

from permatch._parallel import Job, interrupt_of
from permatch._types import BoolArray, FloatArray
from permatch.assignment import Assignment, best_assignment
from permatch.errors import CapacityError, SizeLimitError
from permatch.inference.components import perfect_components
from permatch.inference.exact import EXACT_TOL
from permatch.inference.pair_minors import seconds_of_minors, tangents_by_minors
from permatch.inference.tangent_samples import tangents_by_samples
from permatch.inference.tangent_walks import (
    MOST_OPEN,
    Columns,
    nothing_like,
    seconds_of_walks,
    tangents_by_walks,
)
from permatch.kernels.frontier_plan import frontier_plan
from permatch.problems import Problem, Selection

DUAL, MINORS, SAMPLES = "dual numbers", "pair minors", "exact samples"
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
    methods : frozenset of str
        How they were computed: "dual numbers", "pair minors", "exact samples".
    error : float
        Largest relative standard error of the variance in a direction; 0 without samples.
    """

    edges: FloatArray
    left: FloatArray
    right: FloatArray
    methods: frozenset[str]
    error: float = 0.0


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
        If a component is too wide for exact derivatives, and there are no exact samples.

    Examples
    --------
    >>> import numpy as np
    >>> from permatch._parallel import Job
    >>> from permatch.scores import check_problem
    >>> problem, _ = check_problem(np.zeros((1, 1)), 0.0, 0.0)
    >>> ones = np.ones((1, 1))
    >>> found = infer_tangents(problem, Directions(ones, 0 * ones, 0 * ones), Job())
    >>> found.edges, found.left, *found.methods  # p (1 - p) of the only edge
    (array([[0.25]]), array([[-0.25]]), 'dual numbers')
    """
    if problem.has_capacities:
        raise CapacityError(
            "derivatives of marginals need nodes with at most one partner; this problem "
            "has capacities above 1. Set capacity_left and capacity_right to None."
        )
    try:
        return _infer(problem, directions, job)
    except SystemError as err:
        raise interrupt_of(err) from None


def _infer(problem: Problem, directions: Directions, job: Job) -> Tangents:
    best = best_assignment(problem)
    reduced, along = best.reduced, _centred(problem, directions, best)
    out = nothing_like(along)
    n_columns = along[0].shape[1]
    by_walks = seconds_of_walks(problem.structure, n_columns)
    by_minors = _seconds_of_minors(problem, n_columns)
    is_minors = by_minors < by_walks
    methods, error = set(), 0.0
    if is_minors.any():
        is_done = _solve_squares(reduced, is_minors, along[0], out[0], job)
        is_minors &= is_done  # where digits were lost, dual numbers take over
        methods.add(MINORS)
    is_walked = ~is_minors & np.isfinite(by_walks)
    if is_walked.any():
        methods.add(DUAL)
        _solve_walks(reduced, is_walked, along, out, job)
    for c in np.nonzero(~is_minors & ~is_walked)[0].tolist():
        methods.add(SAMPLES)
        part = reduced.select(np.array([c]))
        try:
            found = tangents_by_samples(part.problem, _pick(part, along), c, job)
        except SizeLimitError as err:
            raise _too_wide(part) from err
        _put(part, found.tangents, out)
        error = max(error, found.error)
    return Tangents(*out, frozenset(methods), error)


def _too_wide(part: Selection) -> SizeLimitError:
    structure = part.problem.structure
    width = int(frontier_plan(structure).width[0])
    return SizeLimitError(
        f"derivatives of marginals need components of width at most {MOST_OPEN}, or exact "
        f"samples; the component of left node {part.left[0]} ({structure.n_left} x "
        f"{structure.n_right} nodes) has a width of at least {width}. Leave out edges that "
        "hardly matter, or fix known pairs."
    )


def _pick(part: Selection, values: Columns) -> Columns:
    """Return the values of some components."""
    return values[0][part.edges], values[1][part.left], values[2][part.right]


def _put(part: Selection, values: Columns, out: Columns) -> None:
    """Put the values of some components in their places."""
    places = part.edges, part.left, part.right
    for whole, place, own in zip(out, places, values, strict=True):
        whole[place] = own


def _solve_walks(
    problem: Problem, chosen: BoolArray, along: Columns, out: Columns, job: Job
) -> None:
    """Fill the derivatives of some components by dual numbers."""
    if chosen.all():  # no copy of the problem, whose plan is kept
        for whole, own in zip(out, tangents_by_walks(problem, along, job), strict=True):
            whole[:] = own
        return
    part = problem.select(np.nonzero(chosen)[0])
    _put(part, tangents_by_walks(part.problem, _pick(part, along), job), out)


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


def _seconds_of_minors(problem: Problem, n_columns: int) -> FloatArray:
    """Estimate what each component takes by pair minors; infinite if it cannot."""
    sizes, _ = problem.structure.components.sizes
    is_perfect = perfect_components(problem)
    known = {m: seconds_of_minors(m, n_columns) for m in np.unique(sizes).tolist()}
    seconds = np.array([known[m] for m in sizes.tolist()], dtype=float)
    return np.where(is_perfect, seconds, np.inf)


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
