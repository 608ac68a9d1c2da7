"""A concave quadratic program over the simplex, from a solution of one much like it.

    maximise  <linear, x> - 1/2 <x, quadratic x>     over  x >= 0, sum(x) = 1

Few entries of the solution are above 0, and of two programs in a row they are nearly the
same.  So the entries above 0 are kept as a set.  Their best values, the others being 0,
solve a linear system; where that has negative values, the way there ends at the first 0,
and this entry leaves the set.  Then the entry with the steepest rise enters it.

    rise_i = linear_i - <quadratic_i, x>  less  its mean under x

No point of the simplex is better than x by more than the largest rise.  A program that
takes too many changes, or whose numbers are too close to singular, is left to an
interior-point solver.

References
----------
P. Wolfe, "Finding the nearest point in a polytope", Mathematical Programming 11 (1976).
"""

from typing import Any

import clarabel
import numpy as np
from scipy import sparse
from scipy.linalg import lapack

from permatch._types import FloatArray

_clarabel: Any = clarabel  # compiled, and without stubs
_lapack: Any = lapack

# Accuracy of the interior-point solver.
_INTERIOR_TOL = 1e-11
# It never returns 0: a share below this fraction of the largest is.
_NO_SHARE = 1e-7
# Entries that enter the set before the interior-point solver is cheaper.
_MOST_CHANGES = 200
# Added to the diagonal, as a fraction of its largest entry: entries may be repeated.
_RIDGE = 1e-13


def simplex_program(
    quadratic: FloatArray, linear: FloatArray, start: FloatArray, tol: float
) -> FloatArray | None:
    """Return a point of the simplex that is at most `tol` below the best, None on failure.

    `quadratic` (t, t) is positive semidefinite and `start` (t,) any point of the simplex.
    The interior-point solver may miss `tol`.  Entries not needed are exactly 0.
    """
    point = _from_start(quadratic, linear, start, tol)
    return _from_scratch(quadratic, linear) if point is None else point


def _from_start(
    quadratic: FloatArray, linear: FloatArray, start: FloatArray, tol: float
) -> FloatArray | None:
    """Change the set of entries above 0 until no rise is above `tol`; None if it fails."""
    point = start.copy()
    # The sum is 1, so a constant may be added to all entries of the matrix.
    constant = float(quadratic.diagonal().max(initial=0.0)) or 1.0
    for _ in range(_MOST_CHANGES):
        rise = linear - quadratic @ point
        rise -= rise @ point
        steepest = int(np.argmax(rise))
        if rise[steepest] <= tol:
            return point
        chosen = np.flatnonzero(point)
        if not point[steepest]:
            chosen = np.append(chosen, steepest)
        while True:
            best = _best_among(quadratic, linear, chosen, constant)
            if best is None:
                return None
            is_out = best <= 0.0
            if not is_out.any():
                point[:] = 0.0
                point[chosen] = best
                break
            own = point[chosen]
            ends = own[is_out] / (own[is_out] - best[is_out])
            way = ends.min()
            reached = np.maximum(own + way * (best - own), 0.0)
            reached[np.flatnonzero(is_out)[ends <= way]] = 0.0
            point[chosen] = reached
            chosen = chosen[reached > 0.0]
    return None


def _best_among(
    quadratic: FloatArray, linear: FloatArray, chosen: Any, constant: float
) -> FloatArray | None:
    """Return the best values with sum 1, perhaps negative, of the chosen entries."""
    size = len(chosen)
    matrix = quadratic[np.ix_(chosen, chosen)] + constant
    matrix.flat[:: size + 1] += _RIDGE * constant
    sides = np.ones((size, 2))
    sides[:, 0] = linear[chosen]
    _, found, is_singular = _lapack.dposv(matrix, sides, lower=1)
    if is_singular:
        return None
    best = found[:, 0] - (found[:, 0].sum() - 1.0) / found[:, 1].sum() * found[:, 1]
    return best / best.sum()


def _from_scratch(quadratic: FloatArray, linear: FloatArray) -> FloatArray | None:
    """Solve the program by an interior-point method; None on failure."""
    size = len(linear)
    settings = _clarabel.DefaultSettings()
    settings.verbose = False
    settings.tol_gap_abs = settings.tol_gap_rel = settings.tol_feas = _INTERIOR_TOL
    solver = _clarabel.DefaultSolver(
        sparse.csc_matrix(np.triu(quadratic)),
        -linear,
        sparse.csc_matrix(np.vstack([np.ones(size), -np.eye(size)])),
        np.append(1.0, np.zeros(size)),
        [_clarabel.ZeroConeT(1), _clarabel.NonnegativeConeT(size)],
        settings,
    )
    # Whatever the solver says of its own success, any point of the simplex will do.
    point = np.maximum(np.array(solver.solve().x), 0.0)
    point[point <= _NO_SHARE * point.max(initial=0.0)] = 0.0
    total = point.sum()
    return point / total if 0.0 < total < np.inf else None
