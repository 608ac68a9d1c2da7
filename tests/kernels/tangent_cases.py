"""Derivatives of marginals by every kernel, for tests with and without the compiler."""

import numpy as np

from permatch._parallel import Job
from permatch.inference import tangent_walks
from permatch.inference.pair_minors import tangents_by_minors
from permatch.inference.tangents import Directions, infer_tangents
from permatch.scores import check_problem


def every_way(scores):
    """Yield derivatives by dual numbers, on floats and logarithms, and by pair minors."""
    n = len(scores)
    problem, _ = check_problem(scores, 0.0, 0.5)
    # eight directions at once, and one
    along = Directions(*(np.cos(np.arange(9.0 * k)).reshape(k, 9) for k in (n * n, n, n)))
    before = tangent_walks.LOST
    for tangent_walks.LOST in (before, 1.0):
        yield infer_tangents(problem, along, Job()).edges
    tangent_walks.LOST = before
    square = np.cos(np.arange(64.0)).reshape(1, 8, 8)
    directions = np.sin(np.arange(128.0)).reshape(1, 64, 2)
    yield tangents_by_minors(square, directions, Job())[0]
