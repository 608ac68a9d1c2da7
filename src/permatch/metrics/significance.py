"""Tests whether two methods differ on the same queries by more than chance."""

from dataclasses import dataclass
from statistics import NormalDist
from typing import Any

import numpy as np

from permatch._types import FloatArray, Seed
from permatch._validation import check_count, check_rng, refuse_masked
from permatch.errors import InvalidOptionError, InvalidQueriesError

#: Adjusted p-values up to this are significant.
LEVEL = 0.05

#: More resamples no test needs.
MAX_RESAMPLES = 10**7

# The share of differences of a detectable size that are found.
_POWER = 0.8

# Numbers drawn together; bounds the memory.
_DRAWS_TOGETHER = 1 << 20

# Sums that differ by rounding only are the same.
_ROUNDING = 1e-12


@dataclass(frozen=True)
class PairedTest:
    """The outcome of a paired randomisation test.

    Attributes
    ----------
    difference : float
        Mean of a minus b.
    p_value : float
        Two-sided.
    interval : pair of float
        95 % percentile bootstrap interval of the difference, resampling queries.
    n : int
        Number of queries.

    Examples
    --------
    >>> from permatch.metrics import randomisation_test
    >>> test = randomisation_test([0.5, 0.7, 0.6, 0.9], [0.4, 0.5, 0.3, 0.5])
    >>> test.n, round(test.difference, 2)
    (4, 0.25)
    """

    difference: float
    p_value: float
    interval: tuple[float, float]
    n: int


def randomisation_test(
    a: Any, b: Any, *, n_resamples: int = 100_000, random_state: Seed = 0
) -> PairedTest:
    """Test whether two methods differ in the mean over the same queries.

    Under the null hypothesis the sign of every query's difference is a coin toss: signs
    are drawn many times and the means compared with the one observed.

    Parameters
    ----------
    a, b : arrays of shape (q,)
        A measure of each method per query.  Average repeated runs per query first.
    n_resamples : int
        Number of sign patterns drawn, and of samples for the interval.
    random_state : int, numpy.random.Generator or None
        Seed or generator.

    Returns
    -------
    PairedTest
        Difference, p-value and interval.

    Notes
    -----
    ``p = (1 + number of means at least as large as observed) / (1 + n_resamples)``, so it
    is never 0.  Among many comparisons some are significant by chance: see `holm`.

    Examples
    --------
    >>> result = randomisation_test([0.5, 0.7, 0.6, 0.9], [0.4, 0.5, 0.3, 0.5])
    >>> round(result.difference, 2), round(result.p_value, 2)
    (0.25, 0.13)
    """
    differences = _check_pairs(a, b)
    (test,) = paired_tests(differences[:, None], n_resamples, random_state)
    return test


def paired_tests(
    differences: FloatArray, n_resamples: int, random_state: Seed
) -> list[PairedTest]:
    """Test the columns of checked differences (q, c), each as `randomisation_test` does.

    All columns see the same draws, so each test is the same alone and among others.
    """
    n_resamples = check_resamples(n_resamples)
    rng = check_rng(random_state)
    n, n_tests = differences.shape
    totals = differences.sum(axis=0)
    # Flipping the signs of some takes off twice their sum.
    limits = np.abs(totals) - _ROUNDING * np.abs(differences).sum(axis=0)
    n_extreme = np.zeros(n_tests, dtype=np.int64)
    for rows in _chunks(n_resamples, n):
        size = rows.stop - rows.start
        is_flipped = rng.integers(0, 256, (size, -(-n // 8)), dtype=np.uint8)
        flipped = np.unpackbits(is_flipped, axis=1, count=n) @ differences
        n_extreme += (np.abs(totals - 2.0 * flipped) >= limits).sum(axis=0)
    means = np.empty((n_resamples, n_tests))
    for rows in _chunks(n_resamples, n):
        chosen = rng.integers(0, n, (rows.stop - rows.start, n))
        for k in range(n_tests):
            means[rows, k] = differences[chosen, k].mean(axis=1)
    ends = np.quantile(means, [0.025, 0.975], axis=0)
    return [
        PairedTest(
            difference=float(totals[k]) / n,
            p_value=(1 + int(n_extreme[k])) / (1 + n_resamples),
            interval=(float(ends[0, k]), float(ends[1, k])),
            n=n,
        )
        for k in range(n_tests)
    ]


def check_resamples(n_resamples: Any, n_tests: int = 0) -> int:
    """Return a number of resamples; refuse one with which no test could be significant.

    With so few no p-value of `n_tests` is small enough after Holm's correction.
    """
    count = check_count(n_resamples, "n_resamples", 1)
    if count > MAX_RESAMPLES:
        raise InvalidOptionError(
            f"n_resamples must be at most {MAX_RESAMPLES:,}; got {count}. 100,000 do for "
            "most tests."
        )
    least = round(n_tests / LEVEL) - 1
    if count < least:
        tests = "a test" if n_tests == 1 else f"{n_tests} tests"
        raise InvalidOptionError(
            f"n_resamples must be at least {least} for {tests}, or no difference could be "
            f"significant; got {count}. Take more."
        )
    return count


def detectable_difference(differences: FloatArray, n_tests: int = 1) -> FloatArray:
    """Return about the smallest true mean difference that shows four times in five.

    Of differences (q, c), for a test over as many queries that vary as much, (c,), at 5 %
    divided by the number of tests, which the smallest p-value has to meet by Holm's rule.
    """
    normal = NormalDist()
    n_errors = round(
        normal.inv_cdf(1.0 - 0.5 * LEVEL / n_tests) + normal.inv_cdf(_POWER), 1
    )
    return n_errors * differences.std(axis=0, ddof=1) / np.sqrt(len(differences))


def holm(p_values: Any) -> FloatArray:
    """Adjust p-values for multiple comparisons by Holm's step-down rule.

    Parameters
    ----------
    p_values : array of shape (m,)
        The p-values of all comparisons made, including those not reported.

    Returns
    -------
    ndarray of shape (m,)
        Comparisons with an adjusted p-value of at most 0.05 are jointly significant at that
        level.

    Examples
    --------
    >>> holm([0.01, 0.04, 0.03]).tolist()
    [0.03, 0.06, 0.06]
    """
    refuse_masked(p_values, "p_values", InvalidOptionError)
    values = np.asarray(p_values, dtype=np.float64)
    if values.ndim != 1 or not ((values >= 0.0) & (values <= 1.0)).all():
        raise InvalidOptionError(
            f"p_values must be a list of numbers between 0 and 1; got {p_values!r}."
        )
    order = np.argsort(values, kind="stable")
    steps = np.arange(len(values), 0, -1) * values[order]
    adjusted = np.empty_like(values)
    adjusted[order] = np.minimum(np.maximum.accumulate(steps), 1.0)
    return adjusted


def _check_pairs(a: Any, b: Any) -> FloatArray:
    for values in (a, b):
        advice = "Drop masked queries from both lists."
        refuse_masked(values, "a list of values", InvalidQueriesError, advice)
    first, second = (np.asarray(values, dtype=np.float64) for values in (a, b))
    if first.ndim != 1 or first.shape != second.shape or not len(first):
        raise InvalidQueriesError(
            "a and b must be lists of equal length, one value per query; got "
            f"shapes {first.shape} and {second.shape}."
        )
    differences = first - second
    is_wrong = ~np.isfinite(differences)
    if is_wrong.any():
        k = int(np.argmax(is_wrong))
        raise InvalidQueriesError(
            f"values must be finite; query {k} has {first[k]} and {second[k]}. Drop "
            "queries where the measure is undefined from both lists."
        )
    return differences


def _chunks(n_rows: int, n_columns: int) -> list[slice]:
    step = max(1, _DRAWS_TOGETHER // n_columns)
    return [slice(k, min(k + step, n_rows)) for k in range(0, n_rows, step)]
