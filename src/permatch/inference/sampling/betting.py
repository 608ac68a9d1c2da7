"""An interval for the mean of numbers in [0, 1] that holds at every number of draws.

A gambler who doubts that the mean is m bets on every draw x, before seeing it, a stake that
multiplies the capital by 1 + s (x - m).  If the mean is m the bets are fair, and the
capital ever reaches 1 / alpha with a probability of at most alpha.  So the values of m
against which the capital stays below 2 / delta, betting once on larger and once on smaller
draws, form an interval that holds with probability 1 - delta whenever one chooses to stop,
whatever the distribution.  Stakes that suit the spread of the draws make it short: it takes
about ln(2 / delta) / (epsilon p) draws of mean p and little spread to know p up to a share
of epsilon, a tenth of what a coin of bias p would need.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from permatch._types import FloatArray

# Most of the capital that may be lost on one draw.
_MOST = 0.95
_FEWEST_DRAWS = 64
# Part of the capital that is bet from the first round on.
_FIRST_PART = 0.8
# The ends are found up to this share, always outwards.
_PRECISION = 1e-4
_LEAST = 1e-140


@dataclass(frozen=True)
class MeanInterval:
    """The ends of the interval, and the draws it took."""

    low: float
    high: float
    mean: float
    n_draws: int

    def is_within(self, epsilon: float) -> bool:
        """Return whether some value is within a share `epsilon` of all in the interval."""
        return self.high * (1.0 - epsilon) <= self.low * (1.0 + epsilon)


class Gambler:
    """Keeps the draws and the stakes that were set before them.

    Most of the capital is bet from the first round on; a part begins later, each time half
    of what is left, so that a first stake far too large is not the end.
    """

    def __init__(self, delta: float) -> None:
        self._goal = math.log(2.0 / delta)
        self._draws: list[FloatArray] = []
        self._stakes: list[float] = []

    def bet(self, stake: float, draws: FloatArray) -> None:
        """Bet `stake` on each of some draws in [0, 1] that were not looked at before."""
        self._draws.append(np.minimum(draws, 1.0))
        self._stakes.append(stake)

    def interval(self) -> MeanInterval:
        """Return the interval after all bets so far."""
        n_draws = sum(map(len, self._draws))
        mean = float(sum(draws.sum() for draws in self._draws)) / n_draws
        return MeanInterval(self._low(mean), self._high(mean), mean, n_draws)

    def _is_refuted(self, mean: float, sign: float) -> bool:
        """Return whether the capital has reached its goal against `mean`."""
        limit = _MOST / mean if sign > 0.0 else _MOST / (1.0 - mean)
        growth = [
            float(np.log1p(sign * min(stake, limit) * (draws - mean)).sum())
            for stake, draws in zip(self._stakes, self._draws, strict=True)
        ]
        since = np.cumsum(growth[::-1])[::-1]  # of what is bet from each round on
        return bool(np.logaddexp.reduce(since + _log_parts(len(growth))) >= self._goal)

    def _low(self, mean: float) -> float:
        """Return a mean below which betting on larger draws has paid."""
        low, high = 0.5 * mean, mean
        while low > _LEAST and not self._is_refuted(low, 1.0):
            low, high = low * low / high, low
        if low <= _LEAST:
            return 0.0
        while high > low * (1.0 + _PRECISION):
            middle = math.sqrt(low * high)
            low, high = (middle, high) if self._is_refuted(middle, 1.0) else (low, middle)
        return low

    def _high(self, mean: float) -> float:
        """Return a mean above which betting on smaller draws has paid."""
        low = max(mean, _LEAST)
        high = 2.0 * low
        while high < 1.0 and not self._is_refuted(high, -1.0):
            low, high = high, high * high / low
        if high >= 1.0:
            high = 1.0 - 1e-12
            if low >= high or not self._is_refuted(high, -1.0):
                return 1.0
        while high > low * (1.0 + _PRECISION):
            middle = math.sqrt(low * high)
            low, high = (low, middle) if self._is_refuted(middle, -1.0) else (middle, high)
        return high


def _log_parts(n_rounds: int) -> FloatArray:
    """Return the logs of the parts of the capital that begin with each round."""
    parts = (1.0 - _FIRST_PART) * 0.5 ** np.arange(n_rounds)
    parts[0] = _FIRST_PART
    return np.log(parts)


def draws_needed(
    mean: float, relative_variance: float, epsilon: float, delta: float
) -> float:
    """Estimate the draws it takes to know `mean` up to a share `epsilon`."""
    gain = epsilon * mean
    stake = min(_stake(mean, relative_variance, epsilon), _MOST)
    growth = stake * gain - 0.5 * stake**2 * (relative_variance * mean**2 + gain**2)
    return _FEWEST_DRAWS + math.log(2.0 / delta) / max(growth, 1e-300)


def bet_until(
    draw: Callable[[int, int], FloatArray],
    guess: float,
    relative_variance: float,
    epsilon: float,
    delta: float,
    max_draws: int,
    affordable: Callable[[float, float], float],
) -> MeanInterval | None:
    """Draw until the mean is known up to a share `epsilon`, but for probability `delta`.

    Parameters
    ----------
    draw : callable
        ``draw(first, count)`` returns the draws `first` and after, at least `count`.
    guess, relative_variance : float
        What the mean and the variance over its square seem to be, from other draws; they
        set the first stake, and a poor guess costs draws but not the guarantee.
    epsilon, delta : float
        Relative error asked for, and the probability with which it may be larger.
    max_draws : int
        Maximum number of draws.
    affordable : callable
        ``affordable(n_done, n_wanted)`` says how many more there is time for.

    Returns
    -------
    MeanInterval or None
        None if the draws or the time did not suffice.
    """
    gambler = Gambler(delta)
    # Mostly fewer do; more are added in steps.
    wanted = min(0.5 * draws_needed(guess, relative_variance, epsilon, delta), max_draws)
    n_done = 0
    total = square = 0.0
    while True:
        draws = draw(n_done, max(int(wanted), 1))
        gambler.bet(_stake(guess, relative_variance, epsilon), draws)
        n_done += len(draws)
        total += float(draws.sum())
        square += float(draws @ draws)
        interval = gambler.interval()
        if interval.is_within(epsilon):
            return interval
        if total > 0.0:
            guess = total / n_done
            relative_variance = max(0.0, n_done * square / total**2 - 1.0)
        wanted = affordable(n_done, min(0.5 * n_done, max_draws - n_done))
        if wanted < 1.0:
            return None


def _stake(mean: float, relative_variance: float, epsilon: float) -> float:
    """Return the stake that grows fastest against a mean off by a share `epsilon`."""
    gain = epsilon * max(mean, 1e-300)
    stake = gain / (relative_variance * mean**2 + gain**2 + 1e-300)
    return min(stake, 1e300)
