"""Which edges lie in some perfect matching."""

import numpy as np

from permatch._types import BoolArray, IntArray


def possible_edges(allowed: BoolArray, matching: IntArray) -> BoolArray:
    """Return the edges that lie in at least one perfect matching of the allowed edges.

    Rows can exchange columns along the edges that `matching` leaves out: edge (i, j) can be
    matched if and only if row i and the row that holds column j lie on a common cycle.

    Parameters
    ----------
    allowed : ndarray of shape (m, m)
        True where an edge is allowed.
    matching : ndarray of shape (m,)
        Any perfect matching of allowed edges.

    Returns
    -------
    ndarray of shape (m, m)
        True for the edges of the support.

    Notes
    -----
    O(m^2), one search for strong components.

    References
    ----------
    T. Tassa, "Finding all maximally-matchable edges in a bipartite graph", Theoretical
    Computer Science 423 (2012).

    Examples
    --------
    >>> import numpy as np
    >>> possible_edges(np.array([[True, True], [False, True]]), np.array([0, 1]))
    array([[ True, False],
           [False,  True]])
    """
    from scipy.sparse.csgraph import connected_components  # slow to import, rarely needed

    if allowed.all():
        return allowed.copy()
    # Row i points to row k if i could take the column that k holds.
    _, component = connected_components(allowed[:, matching], connection="strong")
    holder = np.argsort(matching)
    return allowed & (component[:, None] == component[holder][None, :])
