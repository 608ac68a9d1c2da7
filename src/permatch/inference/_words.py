"""Rough amounts in words, for messages: "about 12 minutes", "16 GiB"; and warnings."""

import math
import sys
import warnings

from permatch._validation import like_others
from permatch.inference.answer import Diagnostics

_TIMES = (
    (3.16e7, "years"),
    (86400.0, "days"),
    (3600.0, "hours"),
    (60.0, "minutes"),
    (1.0, "seconds"),
    (1e-3, "milliseconds"),
)
_SIZES = ((2.0**40, "TiB"), (2.0**30, "GiB"), (2.0**20, "MiB"), (2.0**10, "KiB"))


def seconds_in_words(log2_seconds: float) -> str:
    """Return a duration, given as log2 because exponential costs overflow a float."""
    if log2_seconds > 55:
        return "more than a billion years"
    return _in_units(2.0**log2_seconds, _TIMES, "less than a millisecond")


def bytes_in_words(log2_bytes: float) -> str:
    """Return an amount of memory, given as log2."""
    if log2_bytes > 60:
        return "more than a million TiB"
    return _in_units(2.0**log2_bytes, _SIZES, "less than 1 KiB")


def _in_units(amount: float, units: tuple[tuple[float, str], ...], least: str) -> str:
    for factor, unit in units:
        if amount >= factor:
            count = amount / factor
            return (
                f"about {count:.1f} {unit}" if count < 10 else f"about {count:.0f} {unit}"
            )
    return least


def level_outside() -> int:
    """Return the `stacklevel` of the caller of the package, for `warnings.warn`."""
    frame, level = sys._getframe(1), 1
    while frame is not None and frame.f_globals.get("__name__", "").startswith("permatch."):
        frame, level = frame.f_back, level + 1
    return level


def error_in_words(report: Diagnostics) -> str:
    """Return the largest error of a marginal, as far as it is known."""
    error = report.marginal_error
    if error is None or math.isnan(error) or not report.is_trusted:
        return "error unknown"
    kind = "error at most" if report.certificate == "rigorous" else "standard error"
    return f"{kind} {error:.2g}"


def warn_of_misses(
    report: Diagnostics, graph: int, n_missed: int, tol: float, budget: float | None
) -> None:
    """Warn that `auto` missed its tolerance, with the report of the first such graph."""
    warnings.warn(
        f"auto did not reach tol={tol:g} for graph {graph}{like_others(n_missed)} of size "
        f"{report.size} within its budget of {budget} s; the best result is that of "
        f"{report.engine} ({error_in_words(report)}; certificate: {report.certificate}). "
        "Raise budget or tol (engine=permatch.AutoEngine(budget=..., tol=...)), fix known "
        "edges, or see diagnostics.steps.",
        RuntimeWarning,
        stacklevel=level_outside(),
    )
