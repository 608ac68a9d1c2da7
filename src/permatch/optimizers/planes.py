"""Planes that touch a convex risk from below: a model of it that only gets better."""

import numpy as np

from permatch._types import FloatArray
from permatch.optimizers.simplex import simplex_program

# Planes without a share for so many rounds are dropped: they would only slow the next ones.
_PATIENCE = 10


class Planes:
    """Planes below a risk: slopes (t, d), offsets (t,), and the products of the slopes.

        model(x) = max_t <slope_t, x> + offset_t  <=  risk(x)

    They say nothing of a penalty, so those that one minimisation leaves may begin the next
    one of the same risk at another strength.  The first is the plane 0, which is never
    dropped: the risk is at least 0.
    """

    def __init__(self, n_features: int) -> None:
        self.slopes = np.zeros((1, n_features))
        self.offsets = np.zeros(1)
        self.gram = np.zeros((1, 1))
        self._n_idle = np.zeros(1, dtype=np.intp)
        # The last shares without a pull and with one, from which the next start.
        self._shares = np.ones((2, 1))

    def add(self, slope: FloatArray, offset: float) -> None:
        """Add a plane; the Gram matrix grows by a row and a column."""
        self.slopes = np.vstack([self.slopes, slope])
        self.offsets = np.append(self.offsets, offset)
        products = self.slopes @ slope
        gram = np.empty((len(products), len(products)))
        gram[:-1, :-1] = self.gram
        gram[-1] = gram[:, -1] = products
        self.gram = gram
        self._n_idle = np.append(self._n_idle, 0)
        self._shares = np.append(self._shares, np.zeros((2, 1)), axis=1)

    def model(self, point: FloatArray) -> float:
        """Return the height of the highest plane over a point."""
        return float(np.max(self.slopes @ point + self.offsets))

    def share(
        self, strength: float, offsets: FloatArray, tol: float, *, is_pulled: bool
    ) -> FloatArray | None:
        """Return the shares (t,) of a master problem, None on failure.

        They maximise ``<offsets, shares> - |slopes' shares|^2 / (2 strength)`` up to `tol`.
        Which planes have one is remembered.
        """
        start = self._shares[int(is_pulled)]
        shares = simplex_program(self.gram / strength, offsets, start, tol)
        if shares is not None:
            self._shares[int(is_pulled)] = shares
            self._n_idle[shares > 0.0] = 0
        return shares

    def end_round(self) -> None:
        """Drop planes that have long been unused."""
        self._n_idle[1:] += 1
        is_kept = self._n_idle <= _PATIENCE
        if not is_kept.all():
            self.slopes = self.slopes[is_kept]
            self.offsets = self.offsets[is_kept]
            self.gram = self.gram[np.ix_(is_kept, is_kept)]
            self._n_idle = self._n_idle[is_kept]
            # Shares of long ago may have been those of planes dropped now.
            self._shares = self._shares[:, is_kept]
            self._shares[:, 0] += 1.0 - self._shares.sum(axis=1)
