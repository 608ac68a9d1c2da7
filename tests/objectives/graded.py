"""Lists whose grades are drawn by a `GradeLaw`."""

import numpy as np

from permatch.inference.ranking.grade_law import ListSummaries
from permatch.objectives.grade_counts import GradedLists


def draw_lists(law, n_lists, rng, lengths=(8, 40), scores=None):
    """Return lists of lengths in a range, with scores as given or drawn."""
    sizes = rng.integers(*lengths, size=n_lists)
    starts = np.concatenate([[0], np.cumsum(sizes)])
    if scores is None:
        scores = rng.normal(size=starts[-1]) + np.repeat(rng.normal(size=n_lists), sizes)
    grades = draw_grades(law, scores, starts, rng)
    codes = np.searchsorted(law.grades, grades)
    return GradedLists(scores, codes, starts, np.ones(n_lists))


def draw_grades(law, scores, starts, rng):
    """Return a grade for every document."""
    own = ListSummaries.of(law.span * scores, starts)
    means = own.z @ law.coef + law.std * rng.normal(size=len(starts) - 1)
    shifted = law.slope * own.centred + np.repeat(means, np.diff(starts))
    below = np.cumsum(law._chances(shifted), axis=1)
    kinds = (rng.random((len(scores), 1)) > below[:, :-1]).sum(axis=1)
    return law.grades[kinds]
