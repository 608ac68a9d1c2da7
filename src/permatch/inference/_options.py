"""Checks of engine options."""

from numbers import Real
from typing import Any

from permatch.errors import InvalidOptionError


def check_number(value: Any, name: str, lowest: float, highest: float) -> float:
    """Return `value` as a float of at least `lowest` and below `highest`."""
    if (
        isinstance(value, bool)
        or not isinstance(value, Real)
        or not lowest <= float(value) < highest
    ):
        raise InvalidOptionError(
            f"{name} must be a number of at least {lowest:g} and below {highest:g}, got "
            f"{value!r}."
        )
    return float(value)
