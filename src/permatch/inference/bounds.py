"""Rigorous brackets for the log-partition of graphs of any size."""

from typing import Any

import numpy as np

from permatch._types import FloatArray, IntArray, Scores
from permatch._validation import check_batch, check_choice, check_jobs
from permatch.errors import ScoreShapeError
from permatch.inference.base import Job, check_feasible
from permatch.kernels.sliced import infer_bethe

#: Upper bounds by name; their order gives the codes of `permatch.kernels.bounds`.
METHODS = ("soules", "ext_huber", "ext_huber_tight", "huber_law", "huber_law_tight")

_SHARPENING = 100
_TOL = 1e-8
_MAX_ITER = 300
_ENTRIES_PER_TASK = 1 << 12


def log_partition_bounds(
    scores: Scores, method: str = "soules", *, n_jobs: int | None = None
) -> tuple[Any, Any]:
    """Return a lower and an upper bound of the log-partition, for graphs of any size.

    Both are rigorous up to rounding.  The lower one is the larger of the best matching's
    score and the Bethe free energy of beliefs made doubly stochastic.  The upper one is a
    product over rows (or columns, whichever is lower) of the balanced weights, with columns
    rescaled to make it small where the method allows, or ``(m/2) log 2`` above the Bethe
    value if that is lower.

    Parameters
    ----------
    scores : array of shape (m, m) or (b, m, m), or a list of (m, m) arrays
        Log-weight of each edge; ``-inf`` forbids an edge.
    method : str
        The upper bound: "soules" (the sharpest), "ext_huber", "huber_law" as published, or
        "ext_huber_tight", "huber_law_tight" with the smallest valid constants.
    n_jobs : int, optional
        Threads; None means one, -1 all processors.  Results do not depend on it.

    Returns
    -------
    lower : float or ndarray of shape (b,)
        A float for one graph, an array for several.
    upper : float or ndarray of shape (b,)
        Likewise.

    Notes
    -----
    O(m^3) per graph, 0.1 s for m = 200.

    Examples
    --------
    >>> import numpy as np
    >>> from permatch.inference.bounds import log_partition_bounds
    >>> lower, upper = log_partition_bounds(np.eye(200))
    >>> round(lower, 1), round(upper, 1)
    (861.9, 867.8)
    """
    check_choice(method, "method", METHODS)
    batch = check_batch(scores)
    if batch is None:
        raise ScoreShapeError(
            "log_partition_bounds takes dense squares whose nodes must all be matched; got "
            "sparse or unequal scores. Use diagnostics.interval of permatch.infer(scores, "
            "'bethe'), or 'path_tree' if every node may stay unmatched."
        )
    job = Job(check_jobs(n_jobs))
    ends = np.zeros((batch.n_graphs, 2))
    for members, stack in batch.stacks:
        ends[members] = _bracket(stack, members, METHODS.index(method), job)
    if batch.kind == "one":
        return float(ends[0, 0]), float(ends[0, 1])
    return ends[:, 0].copy(), ends[:, 1].copy()


def _bracket(scores: FloatArray, members: IntArray, code: int, job: Job) -> FloatArray:
    n_graphs, size = scores.shape[:2]
    values = np.empty(n_graphs)
    beliefs = np.empty_like(scores)
    ends = np.zeros((n_graphs, 4))

    def solve(first: int, last: int) -> None:
        infer_bethe(
            scores,
            _TOL,
            _MAX_ITER,
            0.0,
            code,
            _SHARPENING,
            values,
            beliefs,
            ends,
            first,
            last,
        )

    job.run_ranges(solve, n_graphs, 1 + _ENTRIES_PER_TASK // (size * size + 1))
    check_feasible(values, scores, members)
    return ends[:, :2]
