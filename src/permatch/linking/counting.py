"""The constant that makes one-to-one probabilities add up to the expected number of links.

    N(c) = sum of the marginals of the scores s + c

Competition between pairs makes N(0) smaller than the sum of the pair probabilities, which
is about right if the pairs were scored well.  N rises with c: its derivative is the
variance of the number of links, at most ``sum p (1 - p)`` over the marginals p.  The search
is that of regula falsi with the Illinois rule, from a first step by that bound.

Where the pair probabilities add up to more than one-to-one allows, N hardly rises any more
once the plausible links are there, and c runs away until absurd ones are taken.  Where the
number is not reached by a c of at most 4, the sum of the pair probabilities is taken as an
estimate with an error, and c as normal about 0: the most likely c is used.
"""

from collections.abc import Callable
from dataclasses import dataclass

from scipy.optimize import minimize_scalar

from permatch._types import FloatArray

#: Most by which log-odds are raised to keep the count: odds times 55.
MOST_RAISED = 4.0
# Where that is not enough: the spread of the constant, the share by which the sum of the
# pair probabilities may be off besides chance, and how well the constant is found.
_SPREAD, _SHARE_OFF, _CLOSE_OFFSET = 2.0, 0.01, 1e-3
#: Farthest that log-odds are moved to reach a number that was asked for.
_MOST_MOVED = 60.0
#: Share of the number asked for that is close enough.
CLOSE = 1e-6
_MOST_STEPS = 60


@dataclass(frozen=True)
class Count:
    """The expected number of links at some constant, and a bound on its derivative."""

    number: float
    slope: float


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
    """

    offset: float
    number: float
    is_reached: bool


def find_offset(
    count: Callable[[float], Count],
    wanted: float,
    lowest: float = -_MOST_MOVED,
    highest: float = _MOST_MOVED,
) -> Found:
    """Return the constant at which `count` is the number wanted, within limits.

    Parameters
    ----------
    count : callable
        The expected number of links at a constant.
    wanted : float
        The number asked for.
    lowest, highest : float
        The limits of the constant; 0 lies between them.
    """
    close = CLOSE * max(wanted, 1.0)
    start = count(0.0)
    gap = start.number - wanted
    if abs(gap) <= close:
        return Found(0.0, start.number, True)
    sign, end = (1.0, highest) if gap < 0.0 else (-1.0, lowest)
    a, fa = 0.0, gap
    # Steps that grow until the number lies between, the first by the bound on the slope.
    step = abs(gap) / max(start.slope, 1e-300)
    while True:
        b = sign * min(abs(a) + step, abs(end))
        at = count(b)
        fb = at.number - wanted
        if abs(fb) <= close:
            return Found(b, at.number, True)
        if fa * fb < 0.0:
            break
        if b == end:
            return Found(b, at.number, False)
        newton = abs(fb) * abs(b - a) / max(abs(fb - fa), 1e-300)
        a, fa, step = b, fb, max(2.0 * newton, 0.1)
    return _between(count, wanted, close, (a, fa), (b, fb))


def keep_count(count: Callable[[float], Count], chances: FloatArray) -> Found:
    """Return the constant that keeps the sum of pair probabilities, or a likely one.

    Parameters
    ----------
    count : callable
        The expected number of links at a constant.
    chances : ndarray
        The pair probabilities.
    """
    wanted = float(chances.sum())
    found = find_offset(count, wanted, 0.0, MOST_RAISED)
    if found.is_reached:
        return found
    variance = float((chances * (1.0 - chances)).sum()) + (_SHARE_OFF * wanted) ** 2

    def loss(offset: float) -> float:
        gap = wanted - count(offset).number
        return gap * gap / max(variance, 1e-300) + (offset / _SPREAD) ** 2

    best = minimize_scalar(
        loss, bounds=(0.0, MOST_RAISED), options={"xatol": _CLOSE_OFFSET}
    )
    offset = float(best.x)
    return Found(offset, count(offset).number, False)


def _between(
    count: Callable[[float], Count],
    wanted: float,
    close: float,
    one: tuple[float, float],
    other: tuple[float, float],
) -> Found:
    """Search between two constants whose numbers lie on either side."""
    (a, fa), (b, fb) = one, other
    found = Found(b, wanted + fb, False)
    for _ in range(_MOST_STEPS):
        c = b - fb * (b - a) / (fb - fa)
        at = count(c)
        fc = at.number - wanted
        found = Found(c, at.number, abs(fc) <= close)
        if found.is_reached or abs(b - a) < 1e-12:
            return Found(c, at.number, True)
        if fc * fb < 0.0:
            a, fa = b, fb
        else:
            fa *= 0.5
        b, fb = c, fc
    return found
