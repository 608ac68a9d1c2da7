"""Probabilities added up: the same sum in whatever order and parts they are added."""

from dataclasses import dataclass

import numpy as np

from permatch._types import FloatArray
from permatch.kernels.totals import add_halves

# Sums are whole numbers of 2^-60: a float each would depend on the order of its terms.
_UNIT = 1 << 60


@dataclass(frozen=True)
class Total:
    """The sums of p and of p (1 - p) over probabilities, in whole numbers of 2^-60.

    Examples
    --------
    >>> import numpy as np
    >>> chances = np.array([0.1, 0.2, 0.3])
    >>> whole = Total.of(chances)
    >>> whole == Total.of(chances[2:]) + Total.of(chances[:2]), whole.number
    (True, 0.6)
    """

    units: int = 0
    spread_units: int = 0

    @classmethod
    def of(cls, chances: FloatArray) -> "Total":
        """Add up probabilities."""
        sums = add_halves(np.ascontiguousarray(chances, dtype=np.float64))
        high, low, spread_high, spread_low = map(int, sums)
        return cls((high << 30) + low, (spread_high << 30) + spread_low)

    def __add__(self, other: "Total") -> "Total":
        return Total(self.units + other.units, self.spread_units + other.spread_units)

    @property
    def number(self) -> float:
        """The sum of p: the expected number of links."""
        return self.units / _UNIT

    @property
    def variance(self) -> float:
        """The sum of p (1 - p)."""
        return self.spread_units / _UNIT
