"""Goodness of fit of sampled matchings against exact probabilities."""

import numpy as np
from scipy.stats import chi2

from permatch.inference import all_matchings
from tests.helpers import random_scores

# A fixed seed either passes or fails; one that fails by chance would do so this rarely.
THRESHOLD = 1e-4
SPREADS = (0.5, 1.0, 2.0, 5.0)


def cases():
    """Yield graphs of sizes 4 to 6 and several spreads, some with forbidden edges."""
    rng = np.random.default_rng(5)
    for k, spread in enumerate(SPREADS):
        for forbidden in (0.0, 0.4):
            size = 4 + (k + (forbidden > 0.0)) % 3
            yield random_scores(rng, size, spread, forbidden)


def exact_probabilities(scores):
    """Return all matchings of a small graph that are possible, and their probabilities."""
    matchings = all_matchings(len(scores))
    totals = scores[np.arange(len(scores)), matchings].sum(axis=1)
    weights = np.exp(totals - totals.max())
    return matchings, weights / weights.sum()


def p_value(samples, scores):
    """Return the p-value of a chi-square test, cells of expectation under 5 pooled."""
    return p_value_of(samples, *exact_probabilities(scores))


def p_value_of(samples, matchings, probabilities):
    """Return the p-value of samples, given all matchings and their probabilities."""
    place = {tuple(matching): k for k, matching in enumerate(matchings.tolist())}
    counts = np.bincount(
        [place[tuple(matching)] for matching in samples.tolist()], minlength=len(matchings)
    )
    assert counts[probabilities == 0.0].sum() == 0
    expected = probabilities * len(samples)
    is_rare = expected < 5.0
    seen = np.append(counts[~is_rare], counts[is_rare].sum())
    wanted = np.append(expected[~is_rare], expected[is_rare].sum())
    if wanted[-1] < 5.0:  # too rare even together: join the smallest cell
        if len(wanted) > 1:
            least = np.argmin(wanted[:-1])
            seen[least] += seen[-1]
            wanted[least] += wanted[-1]
        seen, wanted = seen[:-1], wanted[:-1]
    if len(wanted) < 2:
        return 1.0
    return float(chi2.sf(((seen - wanted) ** 2 / wanted).sum(), len(wanted) - 1))
