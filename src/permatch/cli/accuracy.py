"""How far an answer is to be trusted, as plain values and for people."""

import math
from typing import TYPE_CHECKING, Any

from rich.table import Table
from rich.text import Text

if TYPE_CHECKING:
    from permatch.distribution import MatchingDistribution
    from permatch.inference import Diagnostics

_MEANINGS = {
    "rigorous": "the error is bounded for certain",
    "asymptotic": "standard errors, as good as the samples are many",
    "heuristic": "nothing is known for certain about the error",
}


def describe_accuracy(distribution: "MatchingDistribution") -> dict[str, Any]:
    """Collect what is known about the error, None where nothing is."""
    told = distribution.diagnostics
    return {
        "certificate": told.certificate,
        "is_converged": told.is_converged,
        "log_partition_error": _finite(distribution.log_partition_error),
        "interval": told.interval,
        "interval_certificate": told.interval_certificate,
        "interval_delta": told.delta,
        "marginal_error": 0.0 if distribution.is_exact else _finite(told.marginal_error),
        "seconds": told.seconds,
        "steps": [_describe_step(step) for step in told.steps],
    }


def _describe_step(step: "Diagnostics") -> dict[str, Any]:
    return {
        "engine": step.engine,
        "seconds": step.seconds,
        "certificate": step.certificate,
        "is_converged": step.is_converged,
        "log_partition_error": _finite(step.log_partition_error),
        "interval": step.interval,
        "interval_certificate": step.interval_certificate,
        "interval_delta": step.delta,
        "marginal_error": _finite(step.marginal_error),
        "n_samples": step.n_samples,
        "effective_samples": _finite(step.effective_samples),
        "reason": step.reason,
    }


def _finite(value: float | None) -> float | None:
    """Return a number that JSON can hold, None for any other."""
    return value if value is not None and math.isfinite(value) else None


def accuracy_rows(summary: dict[str, Any]) -> list[tuple[str, str]]:
    """Return label and text of what there is to say about an approximate answer."""
    if summary["is_exact"]:
        return []
    certificate = summary["certificate"]
    met = "" if summary["is_converged"] else "; the tolerance was not met"
    rows = [("certificate", f"{certificate}: {_MEANINGS[certificate]}{met}")]
    if summary["interval"] is not None:
        low, high = summary["interval"]
        meaning = _interval_meaning(
            summary["interval_certificate"], summary["interval_delta"]
        )
        rows.append(("interval", f"log-partition from {low:.8g} to {high:.8g}, {meaning}"))
    if (error := summary["marginal_error"]) is not None:
        what = "error" if certificate == "rigorous" else "standard error"
        rows.append(("edges", f"{what} of a probability at most {error:.2g}"))
    return rows


def _interval_meaning(certificate: str, delta: float) -> str:
    """Say how far an interval is to be trusted."""
    if certificate != "rigorous":
        return "as the samples say"
    return f"holds but for probability {delta:g}" if delta else "holds for certain"


def log_partition_text(summary: dict[str, Any]) -> str:
    """Write the log-partition with as many digits as are known."""
    value, error = summary["log_partition"], summary["log_partition_error"]
    if summary["is_exact"] or error is None or error < 1e-9:
        return f"{value:.12g}"
    n_digits = max(0, 1 - math.floor(math.log10(error)))
    return f"{value:.{n_digits}f} ± {error:.{n_digits}f}"


def steps_table(steps: list[dict[str, Any]]) -> Table:
    """Lay out what was tried, one after the other."""
    table = Table(header_style="dim", box=None)
    table.add_column("tried", no_wrap=True)
    table.add_column("seconds", justify="right", no_wrap=True)
    table.add_column("std. error", justify="right", no_wrap=True)
    table.add_column("log-partition", no_wrap=True)
    table.add_column("", overflow="fold")
    for step in steps:
        error, interval = step["marginal_error"], step["interval"]
        table.add_row(
            step["engine"],
            f"{step['seconds']:.2f}",
            "" if error is None else f"{error:.2g}",
            "" if interval is None else f"{interval[0]:.6g} to {interval[1]:.6g}",
            Text(step["reason"]),
        )
    return table
