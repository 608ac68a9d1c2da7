"""Unequal sides padded with dummy nodes, for tables that are read as squares."""

import numpy as np

from permatch._types import FloatArray, IntArray


class Padded:
    """A square graph whose smaller side has dummy nodes, which are interchangeable."""

    _sides: tuple[int, int]
    _is_padded: bool = False

    @property
    def n_sides(self) -> tuple[int, int]:
        """Nodes on the left and right side, without dummy nodes."""
        return self._sides

    @property
    def n_extra(self) -> int:
        """Dummy nodes on the smaller side."""
        return abs(self.n_sides[0] - self.n_sides[1]) if self._is_padded else 0

    def align_extra(self, found: IntArray, wanted: IntArray) -> IntArray:
        """Return a matching with dummy nodes exchanged to agree with another.

        Parameters
        ----------
        found, wanted : ndarray of shape (m,)
            The matching, and the one to agree with.

        Returns
        -------
        ndarray of shape (m,)
            A matching equivalent to `found`.
        """
        n_left, n_right = self.n_sides
        if not self._is_padded:
            return found
        if n_left < n_right:
            found = found.copy()
            found[n_left:] = _reordered(found[n_left:], wanted[n_left:])
        elif n_right < n_left:
            left_of, wanted_left = np.argsort(found), np.argsort(wanted)
            left_of[n_right:] = _reordered(left_of[n_right:], wanted_left[n_right:])
            found = np.argsort(left_of)
        return found

    def weigh_extra(self, marginals: FloatArray) -> FloatArray:
        """Return marginals with those of all dummy nodes added up.

        Parameters
        ----------
        marginals : ndarray of shape (m, m)
            The probability of every edge.

        Returns
        -------
        ndarray of shape (m, m)
            For `permatch.decoding.bayes_matching`, so that a node rightly left unmatched
            counts as correct whichever dummy node it got.
        """
        if self.n_extra < 2:
            return marginals
        n_left, n_right = self.n_sides
        weighed = marginals.copy()
        weighed[n_left:] *= self.n_extra
        weighed[:, n_right:] *= self.n_extra
        return weighed


def _reordered(found: IntArray, wanted: IntArray) -> IntArray:
    """Return the numbers of `found`, those that are in `wanted` at their places there."""
    is_common = np.isin(wanted, found)
    placed = np.where(is_common, wanted, -1)
    placed[~is_common] = found[~np.isin(found, wanted)]
    return placed
