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
    n_rows = len(pairs.left)
    if n_rows < _FEWEST_ROWS or left.dtype != right.dtype:
        return
    for rows in (slice(0, _FEW_ROWS), slice(None)):  # few rows tell most tables
        one, other = left[pairs.left[rows]], right[pairs.right[rows]]
        try:
            is_less, is_more = one < other, one > other
        except TypeError:  # ids that cannot be compared
            return
        if not (is_less.all() or is_more.all()):
            return
    n_shared = len(set(left.tolist()).intersection(right.tolist()))
    if n_shared >= _SHARE_OF_IDS * min(len(left), len(right)):
        warnings.warn(
            f"{n_shared:,} ids occur on both sides, and the ids of all pairs are in the "
            "same order, as if one table had been compared with itself. link links two "
            "tables: a record that occurs on both sides counts as two, and may have a "
            f"partner on each. {OTHER_TOOLS}",
            UserWarning,
            stacklevel=3,
        )
