"""The constant that makes one-to-one probabilities add up to the expected number of links.

    N(c) = sum of the marginals of the scores s + c

Competition between pairs makes N(0) smaller than the sum of the pair probabilities, which
is about right if the pairs were scored well.  N rises with c: its derivative is the
variance of the number of links, at most ``sum p (1 - p)`` over the marginals p.  The search
takes secants, from a first step by that bound, and halves what is left where they lead out
of it.

Where the pair probabilities add up to more than one-to-one allows, N hardly rises any more
once the plausible links are there, and c runs away until absurd ones are taken.  Where the
number is not reached by a c of at most 4, the sum of the pair probabilities is taken as an
estimate with an error, and c as normal about 0: the most likely c is used.  What is then
missing matters if it is at least one link and more than such an error explains.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from scipy.optimize import minimize_scalar

from permatch.linking.totals import Total

#: Most by which log-odds are raised to keep the count: odds times 55.
MOST_RAISED = 4.0
# Where that is not enough: the spread of the constant, the share by which the sum of the
# pair probabilities may be off besides chance, and how well the constant is found.
_SPREAD, _SHARE_OFF, _CLOSE_OFFSET = 2.0, 0.01, 1e-2
# Standard deviations beyond which an error is no chance.
_DEVIATIONS = 2.0
_MOST_STEPS = 100
# Constants so close give the same probabilities.
_SAME = 1e-13


@dataclass(frozen=True)
class Count:
    """The expected number of links at some constant, and a bound on its derivative."""

    number: float
    slope: float


Counting = Callable[[float], Count]


@dataclass(frozen=True)
class Search:
    """How a search begins and ends.

    Attributes
    ----------
    lowest, highest : float
        The limits of the constant.
    close : float
        Share of the number asked for that is close enough.
    start : float
        The first constant tried.
    share : float
        The slope there, as a share of its bound.
    """

    lowest: float
    highest: float
    close: float = 1e-6
    start: float = 0.0
    share: float = 0.7

    def bounded(self) -> "Search":
        """Return the search with the limits of a constant that nobody asked for."""
        start = min(max(self.start, 0.0), MOST_RAISED)
        return replace(self, lowest=0.0, highest=MOST_RAISED, start=start)


@dataclass(frozen=True)
class Found:
    """The constant found.

    Attributes
    ----------
    offset : float
        The constant.
    number : float
        The expected number of links there.
    is_reached : bool
        Whether that is the number asked for.
    share : float
        The slope there, as a share of its bound.
    is_implausible : bool
        Whether more is missing than the error of a sum of probabilities explains.
    """

    offset: float
    number: float
    is_reached: bool
    share: float
    is_implausible: bool = False


def find_offset(count: Counting, wanted: float, search: Search) -> Found:
    """Return the constant at which `count` is the number wanted, within limits.

    Parameters
    ----------
    count : callable
        The expected number of links at a constant.
    wanted : float
        The number asked for.
    search : Search
        Limits, and how to begin.
    """
    enough = search.close * max(wanted, 1.0)
    lowest, highest = search.lowest, search.highest
    low, high = lowest, highest  # what is asked for lies between, if within the limits
    offset = search.start
    at = count(offset)
    slope = search.share * at.slope
    for _ in range(_MOST_STEPS):
        gap = at.number - wanted
        is_at_limit = offset == (highest if gap < 0.0 else lowest)
        if abs(gap) <= enough or is_at_limit or high - low < _SAME:
            break
        low, high = (low, offset) if gap > 0.0 else (offset, high)
        ahead = offset - gap / max(slope, 1e-300)
        if not low < ahead < high:
            ahead = _inside(low, high, search, gap)
        before, offset = offset, ahead
        at = count(offset)
        slope = (at.number - wanted - gap) / (offset - before)
    is_reached = abs(at.number - wanted) <= enough
    share = slope / at.slope if at.slope > 0.0 else 1.0
    return Found(offset, at.number, is_reached, share)


def _inside(low: float, high: float, search: Search, gap: float) -> float:
    """Return where to go if a step leads out of what is left: a limit may be the answer."""
    if gap < 0.0 and high == search.highest:
        return high
    if gap > 0.0 and low == search.lowest:
        return low
    return 0.5 * (low + high)


def keep_count(count: Counting, chances: Total, search: Search) -> Found:
    """Return the constant that keeps the sum of pair probabilities, or a likely one.

    Parameters
    ----------
    count : callable
        The expected number of links at a constant.
    chances : Total
        The pair probabilities, added up.
    search : Search
        How to begin.
    """
    wanted = chances.number
    found = find_offset(count, wanted, search.bounded())
    if found.is_reached:
        return found
    variance = chances.variance + (_SHARE_OFF * wanted) ** 2

    def loss(offset: float) -> float:
        gap = wanted - count(offset).number
        return gap * gap / max(variance, 1e-300) + (offset / _SPREAD) ** 2

    best: Any = minimize_scalar(
        loss, bounds=(0.0, MOST_RAISED), options={"xatol": _CLOSE_OFFSET}
    )
    offset = float(best.x)
    number = count(offset).number
    is_implausible = wanted - number > max(1.0, _DEVIATIONS * math.sqrt(variance))
    return replace(found, offset=offset, number=number, is_implausible=is_implausible)
