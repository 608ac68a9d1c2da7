"""Checks of what `permatch.link` is given."""

import math
import warnings
from numbers import Real
from typing import Any, Literal

import numpy as np

from permatch._score_checks import check_capacities
from permatch._types import IntArray
from permatch.decoding.bayes import LinkCosts
from permatch.errors import InvalidOptionError
from permatch.linking.pairs import ScoredPairs
from permatch.linking.sources import OTHER_TOOLS

#: The number of links to expect: see `permatch.link`.
Expected = Literal["pairs"] | float | None

# Fewer rows than this say nothing about where their records come from.
_FEWEST_ROWS, _FEW_ROWS, _SHARE_OF_IDS = 10, 1000, 0.1
# Share of pairs listed in both orders.
_SHARE_OF_TURNED = 0.5


def check_costs(costs: LinkCosts | None) -> LinkCosts:
    """Return costs; by default a wrong link counts as a false and a missed one."""
    if costs is None:
        return LinkCosts()
    if not isinstance(costs, LinkCosts):
        raise InvalidOptionError(
            f"costs must be permatch.LinkCosts(...) or None; got {costs!r}."
        )
    return costs


def check_score(value: Any, name: str) -> float:
    """Return a finite number."""
    if not _is_number(value) or not math.isfinite(value):
        raise InvalidOptionError(f"{name} must be a finite number; got {value!r}.")
    return float(value)


def check_expected(value: Any) -> Expected:
    """Return "pairs", None, or a number of links above 0."""
    if value is None or (isinstance(value, str) and value == "pairs"):
        return value
    if not _is_number(value) or not 0.0 < float(value) < math.inf:
        raise InvalidOptionError(
            "expected_links must be 'pairs' (the sum of the pair probabilities), a number "
            f"above 0, or None (add nothing); got {value!r}."
        )
    return float(value)


def check_capacity(capacity: Any, name: str, n: int) -> IntArray | None:
    """Return the room of every record; None where each has room for one link."""
    if np.ndim(capacity):
        raise InvalidOptionError(
            f"{name} must be one number for all records; got {capacity!r}."
        )
    return check_capacities(capacity, name, "one", np.array([n]))


def _is_number(value: Any) -> bool:
    return isinstance(value, Real) and not isinstance(value, bool | np.bool_)


def warn_of_one_table(pairs: ScoredPairs) -> None:
    """Warn if the pairs look as if one table had been compared with itself."""
    left, right = pairs.ids
    is_known = bool(pairs.columns.others)  # splink has named two sources
    if is_known or len(pairs.left) < _FEWEST_ROWS or left.dtype != right.dtype:
        return
    sign = "the ids of all pairs are in the same order"
    if not _is_sorted(pairs):
        sign = "most pairs are listed in both orders, with the same values"
        if not _is_mirrored(pairs):
            return
    n_shared = len(set(left.tolist()).intersection(right.tolist()))
    if n_shared >= _SHARE_OF_IDS * min(len(left), len(right)):
        warnings.warn(
            f"{n_shared:,} ids occur on both sides, and {sign}, as if one table had been "
            "compared with itself. link links two tables: a record that occurs on both "
            f"sides counts as two, and may have a partner on each. {OTHER_TOOLS}",
            UserWarning,
            stacklevel=3,
        )


def _is_sorted(pairs: ScoredPairs) -> bool:
    """Return whether the left id is the smaller one in all pairs, or in none.

    Pairs of an id with itself are left aside.
    """
    left, right = pairs.ids
    for rows in (slice(0, _FEW_ROWS), slice(None)):  # few rows tell most tables
        one, other = left[pairs.left[rows]], right[pairs.right[rows]]
        try:
            n_less, n_more = int((one < other).sum()), int((one > other).sum())
        except TypeError:  # ids that cannot be compared
            return False
        if min(n_less, n_more) or max(n_less, n_more) < _FEWEST_ROWS:
            return False
    return True


def _is_mirrored(pairs: ScoredPairs) -> bool:
    """Return whether most pairs of two ids are listed in both orders, with equal values."""
    left, right = pairs.ids
    places = {key: k for k, key in enumerate(right.tolist())}
    few = left[:_FEW_ROWS].tolist()
    if 2 * sum(key in places for key in few) < len(few):
        return False
    twins = np.array([places.get(key, -1) for key in left.tolist()], dtype=np.int64)
    back = np.full(len(right), -1, dtype=np.int64)
    back[twins[twins >= 0]] = np.flatnonzero(twins >= 0)
    one, other = back[pairs.right], twins[pairs.left]  # the same pair, turned round
    is_two = other != pairs.right
    rows = np.flatnonzero((one >= 0) & (other >= 0) & is_two)
    order = np.arange(len(pairs.left)) if pairs.order is None else pairs.order
    keys = (pairs.left * len(right) + pairs.right)[order]
    wanted = one[rows] * len(right) + other[rows]
    found = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
    is_listed = keys[found] == wanted
    values = pairs.columns.features
    pair, mirrored = values[rows[is_listed]], values[order[found[is_listed]]]
    n_same = int(np.isclose(pair, mirrored, rtol=1e-6, equal_nan=True).all(axis=1).sum())
    return n_same >= max(_FEWEST_ROWS, _SHARE_OF_TURNED * int(is_two.sum()))
