"""What is claimed of an experiment, and what its numbers say about that.

An effect is a number that the claim wants above a bound, with its interval, of 95 % or,
where there may be several looks at it, of more.
Whatever the claim, the verdict follows from its effects by one rule, `judge`:

    reproduced                    all effects are surely on the claimed side
    not reproduced                at least one is surely on the other side
    cannot be told from this data anything else
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from math import exp, inf, isfinite, log, sqrt

import numpy as np

from reproduce.experiments.rows import Row

#: Share of the intervals that hold the truth.
LEVEL = 0.95

# An effect with a p-value is open unless it is below this.
_SIGNIFICANT = 0.05

# Spread below this share of the values is rounding.
_ROUNDING = 1e-9

#: How `judge` decides, in words.
RULE = (
    "Every claim is put as one or more numbers that it wants above a bound, which is zero "
    "unless another one is named. Reproduced: all of them are above it, with their whole "
    "95 % intervals. Not reproduced: at least one is below it with its whole interval. "
    "Cannot be told from this data: anything else. Intervals are Student's unless a "
    "section says otherwise. They are taken over repeats, test queries or test pairs, as "
    "each section says; where over two of these, the wider one counts. Where repeats may "
    "end at any of several looks, the intervals are wider, as the section says. A single "
    "value has no interval and decides nothing, and nor do values that are all equal. What "
    "is told beside a claim has no part in its verdict. The program applies these rules; "
    "nobody chooses a verdict."
)


class Verdict(StrEnum):
    """What may be said about a claim."""

    REPRODUCED = "reproduced"
    NOT_REPRODUCED = "not reproduced"
    UNDECIDED = "cannot be told from this data"
    NOT_RUN = "not run: no data"


@dataclass(frozen=True)
class Effect:
    """A number that a claim wants above another.

    Parameters
    ----------
    what : str
        What it is, such that more of it speaks for the claim.
    mean, low, high : float
        The number and its interval, infinite where nothing is known of it; no number at
        all is NaN.
    over : str
        What the interval is taken over, such as ``"5 repeats"``.
    null : float
        The number that it is to be above.
    is_ratio : bool
        Whether it is a ratio, not a difference.
    p_holm : float, optional
        Where there was a test besides, its p-value after Holm's correction; 0.05 or more
        leave the effect open, whatever the interval.
    is_judged : bool
        False for what is told beside the claim and has no part in the verdict.
    level : float
        Share of such intervals that hold the truth.
    """

    what: str
    mean: float
    low: float
    high: float
    over: str
    null: float = 0.0
    is_ratio: bool = False
    p_holm: float | None = None
    is_judged: bool = True
    level: float = LEVEL

    @property
    def side(self) -> int:
        """1 if surely on the claimed side, -1 if surely on the other, else 0."""
        if self.p_holm is not None and self.p_holm >= _SIGNIFICANT:
            return 0
        return int(self.low > self.null) - int(self.high < self.null)

    def to_json(self) -> Row:
        """Return it as plain numbers; an interval without end is None."""
        return {
            "what": self.what,
            "mean": self.mean if isfinite(self.mean) else None,
            "low": self.low if isfinite(self.low) else None,
            "high": self.high if isfinite(self.high) else None,
            "over": self.over,
            "null": self.null,
            "is_ratio": self.is_ratio,
            "p_holm": self.p_holm,
            "is_judged": self.is_judged,
            "level": self.level,
            "side": self.side,
        }


def judge(effects: Sequence[Effect]) -> Verdict:
    """Return what follows from the effects that a claim wants above their nulls.

    Parameters
    ----------
    effects : sequence of Effect
        All that the claim says, and what is told beside it.

    Returns
    -------
    Verdict
        By the rule at the top of this module.

    Examples
    --------
    >>> judge([effect_of([0.1, 0.2, 0.15], "gain")]).value
    'reproduced'
    >>> judge([effect_of([0.1], "gain")]).value
    'cannot be told from this data'
    """
    sides = [effect.side for effect in effects if effect.is_judged]
    if -1 in sides:
        return Verdict.NOT_REPRODUCED
    if sides and all(side == 1 for side in sides):
        return Verdict.REPRODUCED
    return Verdict.UNDECIDED


def effect_of(
    values: Sequence[float], what: str, noun: str = "repeat", level: float = LEVEL
) -> Effect:
    """Return the mean of paired differences with Student's interval.

    Parameters
    ----------
    values : sequence of float
        A difference per repeat, query or whatever `noun` says.
    what : str
        What they are.
    noun : str
        What there is one difference of.
    level : float
        Share of such intervals that hold the truth.

    Returns
    -------
    Effect
        With an infinite interval if there is a single value, or all are equal but for
        rounding: their spread would be no estimate of anything.
    """
    n = len(values)
    over = f"{n} {noun}" if n == 1 else f"{n} {_plural(noun)}"
    mean = float(np.mean(values))
    spread = float(np.std(values, ddof=1)) if n > 1 else inf
    if n > 1 and spread <= _ROUNDING * float(np.max(np.abs(values))):
        spread = inf
    return from_error(what, mean, spread / sqrt(n), n - 1, over, level)


def from_error(
    what: str, mean: float, error: float, df: int, over: str, level: float = LEVEL
) -> Effect:
    """Return an effect with this standard error, of so many degrees of freedom.

    Parameters
    ----------
    what : str
        What it is.
    mean, error : float
        The number and its standard error.
    df : int
        Degrees of freedom of the error.
    over : str
        What it was taken over.
    level : float
        Share of such intervals that hold the truth.

    Returns
    -------
    Effect
        With an infinite interval if the error is not known.
    """
    from scipy.special import stdtrit

    if df < 1 or not isfinite(error):
        return Effect(what, mean, -inf, inf, over, level=level)
    half = float(stdtrit(df, 0.5 + level / 2)) * error
    return Effect(what, mean, mean - half, mean + half, over, level=level)


def widest(effects: Sequence[Effect]) -> Effect:
    """Return the one with the widest interval: chance has more than one source.

    Parameters
    ----------
    effects : sequence of Effect
        The same number, its spread taken over different things.

    Returns
    -------
    Effect
        One of them.
    """
    return max(effects, key=lambda effect: effect.high - effect.low)


def ratio_of(
    above: Sequence[float], below: Sequence[float], what: str, null: float = 1.0
) -> Effect:
    """Return the geometric mean of paired ratios.

    Parameters
    ----------
    above, below : sequence of float
        Numerators and denominators, all above 0.
    what : str
        What the ratio is.
    null : float
        What the claim wants it above.

    Returns
    -------
    Effect
        With the interval of the logarithms, taken back.
    """
    logs = [log(a / b) for a, b in zip(above, below, strict=True)]
    found = effect_of(logs, what)
    high = exp(found.high) if isfinite(found.high) else inf
    low, mean = exp(found.low), exp(found.mean)
    return Effect(what, mean, low, high, found.over, null=null, is_ratio=True)


def _plural(noun: str) -> str:
    return noun[:-1] + "ies" if noun.endswith("y") else noun + "s"
