"""Numbers in words and tables, and the report of any fit."""

import re
from decimal import Decimal
from math import isnan
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

#: Coefficients and sizes printed; the JSON has them all.
MAX_ROWS = 10

# What the last entry of a history may say, by estimator.
_ENDINGS = ("loss", "grad_norm", "gap", "evaluations")


def describe_model(
    model: Any, names: list[str], path: str, seconds: float
) -> dict[str, Any]:
    """Collect the results of any fit as plain lists and numbers."""
    last, params = model.history_[-1], model.get_params()
    summary = {
        "model": path,
        "estimator": type(model).__name__,
        "alpha": float(getattr(model, "alpha_", params.get("alpha"))),
        "is_converged": bool(model.is_converged_),
        "n_iter": int(model.n_iter_),
        "seconds": seconds,
        **{name: float(last[name]) for name in _ENDINGS if name in last},
        "coefficients": [
            {"feature": name, "coef": float(coef), "per_deviation": float(coef * scale)}
            for name, coef, scale in zip(names, model.coef_, model.scale_, strict=True)
        ],
    }
    if hasattr(model, "posterior_"):
        _add_errors(summary, model.posterior_)
    if hasattr(model, "cv_results_"):
        results = model.cv_results_
        columns = (results["alphas"], results["mean_score"], results["std_score"])
        is_by_evidence = isinstance(params.get("alphas"), str)
        summary["scoring"] = "log-evidence" if is_by_evidence else params["scoring"]
        summary["n_splits"] = results["scores"].shape[1]
        summary["path"] = [
            {"alpha": float(alpha), "score": float(mean), "spread": float(spread)}
            for alpha, mean, spread in zip(*columns, strict=True)
        ]
    return summary


def as_options(text: str) -> str:
    """Return the advice of the library in the words of the command line."""
    return re.sub(r"cov_type='(\w+)'", r"--inference \1", text)


def _add_errors(summary: dict[str, Any], posterior: Any) -> None:
    """Add standard errors and intervals to the coefficients, and what they mean."""
    columns = posterior.bse.tolist(), *posterior.conf_int().T.tolist()
    for row, *figures in zip(summary["coefficients"], *columns, strict=False):
        names = "standard_error", "low", "high"
        row |= {
            name: None if isnan(figure) else figure
            for name, figure in zip(names, figures, strict=True)
        }
    summary["inference"] = {
        "cov_type": posterior.cov_type,
        "interval": f"95 % {posterior.interval_name}",
        posterior.units: posterior.nobs,
        "clusters": posterior.n_clusters,
        "notes": list(map(as_options, posterior.notes)),
    }


def add_ending(table: Table, summary: dict[str, Any]) -> None:
    """Add how a fit ended to a table of facts."""
    ending = "converged" if summary["is_converged"] else "not converged"
    steps = plural(summary["n_iter"], "step")
    if "evaluations" in summary:
        steps += f", {summary['evaluations']:.0f} evaluations"
    table.add_row("fit", f"{ending} after {steps}, {summary['seconds']:.1f} s")
    table.add_row("loss", f"{summary['loss']:.6g}")
    for name, words in (("grad_norm", "gradient norm"), ("gap", "duality gap")):
        if name in summary:
            table.add_row(words, f"{summary[name]:.2g}")


def show_path(console: Console, summary: dict[str, Any], title: str) -> None:
    """Print the alphas tried, if there was a choice, and the coefficients."""
    if "path" in summary:
        console.print(f"\n[bold]alphas tried, {title}[/bold]")
        is_by_evidence = summary["scoring"] == "log-evidence"
        head = "log-evidence" if is_by_evidence else "mean"
        console.print(path_table(summary["path"], summary["alpha"], head))
    coefficients = summary["coefficients"]
    more = f", the strongest {MAX_ROWS}" * (len(coefficients) > MAX_ROWS)
    console.print(f"\n[bold]coefficients{more}[/bold]")
    console.print(coefficient_table(coefficients, summary.get("inference")))
    for note in summary.get("inference", {}).get("notes", ()):
        console.print(f"note: {note}", style="dim", markup=False)


def path_table(path: list[dict[str, float]], chosen: float, head: str = "mean") -> Table:
    """Return the scores of all alphas tried, the chosen one marked."""
    has_spread = any(row["spread"] for row in path)
    table = plain_table("alpha", head, "spread" if has_spread else "", "")
    for row in path:
        is_chosen = row["alpha"] == chosen
        table.add_row(
            f"{row['alpha']:g}",
            f"{row['score']:.4f}",
            f"{row['spread']:.4f}" if has_spread else "",
            "chosen" if is_chosen else "",
            style="bold green" if is_chosen else "",
        )
    return table


def coefficient_table(
    coefficients: list[dict[str, Any]], inference: dict[str, Any] | None = None
) -> Table:
    """Return the coefficients, the largest first, with intervals if they are known."""
    headers = ["feature", "coefficient", "per standard deviation"]
    table = plain_table(*headers, *([inference["interval"]] if inference else []))
    table.columns[0].justify = "left"
    table.columns[0].overflow = "fold"
    for row in sorted(coefficients, key=lambda row: -abs(row["per_deviation"]))[:MAX_ROWS]:
        cells = [f"{row['coef']:.6g}", f"{row['per_deviation']:.4g}"]
        if inference:
            is_held = row["low"] is None
            ends = "at a bound" if is_held else f"{row['low']:.4g} to {row['high']:.4g}"
            cells.append(ends)
        table.add_row(Text(row["feature"]), *cells)
    return table


def facts() -> Table:
    """Return an empty table of names and values."""
    table = Table.grid(padding=(0, 2))
    table.add_column(style="bold", no_wrap=True)
    table.add_column(overflow="fold")
    return table


def plain_table(*headers: str) -> Table:
    """Return an empty table of figures, without lines."""
    table = Table(header_style="dim", box=None)
    for header in headers:
        table.add_column(header, justify="right", no_wrap=True)
    return table


def plural(number: int, noun: str) -> str:
    """Write a number and what it counts: 1 cell, 2 cells."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def number(value: float | None) -> str:
    """Write a measure, nothing if there is none."""
    return "" if value is None else f"{value:.4f}"


def percent(probability: float) -> str:
    """Write a probability as a percentage, never rounded to a false 0 or 100."""
    if probability in (0.0, 1.0):
        return f"{100 * probability:.0f} %"
    is_extreme = not 0.01 <= probability <= 0.99
    for digits in range(1 + is_extreme, 4):
        text = f"{100 * probability:.{digits}f}"
        if 0.0 < float(text) < 100.0:
            return f"{text} %"
    return f"{100 * probability:.1e} %" if probability < 0.5 else "> 99.999 %"


def percent_of_log(log_probability: float) -> str:
    """Write the probability with this logarithm, which float64 may round to zero."""
    chance = Decimal(log_probability).exp()
    if chance == 0 and log_probability > -float("inf"):
        return "< 1e-999999 %"  # where even Decimal gives up
    is_tiny = 0 < chance < Decimal("1e-300")
    return f"{100 * chance:.1e} %" if is_tiny else percent(float(chance))


def join_edges(matching: list[int], rows: list[str] | None, cols: list[str] | None) -> str:
    """Write a matching as pairs of labels, or as plain columns where there are none.

    Rows without a partner are named at the end, or written as a dash.
    """
    if rows is None and cols is None:
        return " ".join("-" if col < 0 else str(col) for col in matching)
    pairs = [(row, col) for row, col in enumerate(matching) if col >= 0]
    words = [join_pairs(pairs, rows, cols)] if pairs else []
    alone = [rows[row] if rows else str(row) for row, col in enumerate(matching) if col < 0]
    return "; ".join([*words, f"unmatched: {', '.join(alone)}"] if alone else words)


def join_pairs(
    pairs: list[tuple[int, int]], rows: list[str] | None, cols: list[str] | None
) -> str:
    """Write edges as pairs of labels, or of numbers where there are none."""
    return ", ".join(
        f"{rows[row] if rows else row} - {cols[col] if cols else col}" for row, col in pairs
    )
