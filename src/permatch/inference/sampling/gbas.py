"""The Gamma Bernoulli approximation scheme: how likely heads is, with a guarantee.

Toss a coin until heads came up k times, and let R be the sum of one exponential number of
mean one per toss.  Then p R has the Gamma distribution of shape k whatever the probability
p of heads: the estimate (k - 1) / R has a relative error whose distribution is known, and
the quantiles of that distribution give an interval that holds for every k, not only large
ones.
"""

import math
from dataclasses import dataclass
from functools import cache

from permatch.errors import InvalidOptionError


@cache
def heads_needed(epsilon: float, delta: float) -> int:
    """Return how many heads make the relative error at most `epsilon`, but for `delta`.

    Parameters
    ----------
    epsilon : float
        Largest relative error of the estimate.
    delta : float
        Probability with which it may be larger.

    Returns
    -------
    int
        The smallest number of heads that is enough.

    References
    ----------
    M. Huber, "A Bernoulli mean estimate with known relative error distribution", Random
    Structures and Algorithms 50 (2017).

    Examples
    --------
    >>> heads_needed(0.1, 0.05)
    385
    """
    from scipy.special import gammainc  # slow to import

    def is_enough(k: int) -> bool:
        inside = gammainc(k, (k - 1) / (1.0 - epsilon)) - gammainc(
            k, (k - 1) / (1.0 + epsilon)
        )
        return bool(inside >= 1.0 - delta)

    high = 2
    while not is_enough(high):
        high *= 2
        if high > 1 << 40:
            raise InvalidOptionError(
                f"epsilon={epsilon} and delta={delta} need more than 10^12 exact samples. "
                "Raise them."
            )
    low = high // 2
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if is_enough(middle) else (middle, high)
    return high


def heads_interval(n_heads: int, total: float, delta: float) -> tuple[float, float]:
    """Return the interval that holds the probability of heads with probability 1 - delta.

    Parameters
    ----------
    n_heads : int
        Heads after which the tossing stopped.
    total : float
        Sum of one exponential number per toss.
    delta : float
        Probability with which the interval may miss, half of it on either side.

    Returns
    -------
    tuple of floats
        Its two ends.
    """
    from scipy.special import gammaincinv

    low = gammaincinv(n_heads, 0.5 * delta) / total
    high = gammaincinv(n_heads, 1.0 - 0.5 * delta) / total
    return float(low), float(high)


@dataclass(frozen=True)
class CoinEstimate:
    """The probability of heads after tossing coins until enough heads had come up.

    `total` is the sum of one exponential number per toss.
    """

    n_heads: int
    n_tosses: int
    total: float

    @property
    def log_probability(self) -> float:
        """Log of the estimate with known relative error."""
        return math.log((self.n_heads - 1) / self.total)

    def log_interval(self, delta: float) -> tuple[float, float]:
        """Return the interval for the log-probability that holds but for `delta`."""
        low, high = heads_interval(self.n_heads, self.total, delta)
        return math.log(low), min(math.log(high), 0.0)
