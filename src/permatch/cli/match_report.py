"""What ``permatch match`` tells about a fit and about an evaluation."""

from collections import Counter
from typing import TYPE_CHECKING, Any

import numpy as np
from rich.console import Console
from rich.table import Table
from rich.text import Text

from permatch._types import FloatArray, IntArray
from permatch.cli.terminal import percent

if TYPE_CHECKING:
    from permatch.datasets import EdgeTable
    from permatch.estimators import BaseMatcher

#: Coefficients and sizes printed; the JSON has them all.
MAX_ROWS = 10

# What the last entry of a history may say, by estimator.
_ENDINGS = ("loss", "grad_norm", "gap", "evaluations")


def describe_fit(
    model: Any, table: "EdgeTable", held_out: "EdgeTable | None", path: str, seconds: float
) -> dict[str, Any]:
    """Collect what a fit came to, as plain lists and numbers."""
    last = model.history_[-1]
    params = model.get_params()
    summary = {
        "model": path,
        "estimator": type(model).__name__,
        "alpha": float(getattr(model, "alpha_", params.get("alpha"))),
        "engine": str(params["engine"]),
        "n_graphs": len(table.graphs),
        "sizes": _sizes(table),
        "n_features": len(table.feature_names),
        "is_converged": bool(model.is_converged_),
        "n_iter": int(model.n_iter_),
        "seconds": seconds,
        **{name: float(last[name]) for name in _ENDINGS if name in last},
        "hamming_loss": 1.0 - model.score(table.graphs, table.matchings),
        "valid_hamming_loss": None,
        "coefficients": [
            {"feature": name, "coef": float(coef), "per_deviation": float(coef * scale)}
            for name, coef, scale in zip(
                table.feature_names, model.coef_, model.scale_, strict=True
            )
        ],
    }
    if held_out is not None:
        summary["valid_hamming_loss"] = 1.0 - model.score(
            held_out.graphs, held_out.matchings
        )
    if hasattr(model, "cv_results_"):
        results = model.cv_results_
        summary["path"] = [
            {"alpha": float(alpha), "score": float(mean), "spread": float(spread)}
            for alpha, mean, spread in zip(
                results["alphas"], results["mean_score"], results["std_score"], strict=True
            )
        ]
        summary["scoring"] = params["scoring"]
        summary["n_splits"] = results["scores"].shape[1]
        summary["path_evaluations"] = int(results["n_evaluations"].sum())
    return summary


def show_fit(console: Console, summary: dict[str, Any]) -> None:
    """Print the summary of a fit for people."""
    table = facts()
    table.add_row(
        "model",
        Text(
            f"{summary['model']}: {summary['estimator']}, alpha {summary['alpha']:g}, "
            f"engine {summary['engine']}"
        ),
    )
    table.add_row("graphs", _sizes_in_words(summary["n_graphs"], summary["sizes"]))
    table.add_row("features", str(summary["n_features"]))
    ending = "converged" if summary["is_converged"] else "not converged"
    evaluations = ""
    if "evaluations" in summary:
        evaluations = f", {summary['evaluations']:.0f} evaluations"
    steps = f"{summary['n_iter']} steps{evaluations}"
    table.add_row("fit", f"{ending} after {steps}, {summary['seconds']:.1f} s")
    table.add_row("loss", f"{summary['loss']:.6g}")
    for name, words in (("grad_norm", "gradient norm"), ("gap", "duality gap")):
        if name in summary:
            table.add_row(words, f"{summary[name]:.2g}")
    table.add_row("Hamming loss", f"{percent(summary['hamming_loss'])} of training nodes")
    if summary["valid_hamming_loss"] is not None:
        table.add_row("", f"{percent(summary['valid_hamming_loss'])} of validation nodes")
    console.print(table)
    if "path" in summary:
        name = summary["scoring"].replace("_", "-")
        where = f"{summary['n_splits']} folds" if summary["n_splits"] > 1 else "validation"
        console.print(
            f"\n[bold]alphas tried, {name} of {where}, {summary['path_evaluations']} "
            "evaluations[/bold]"
        )
        console.print(path_table(summary["path"], summary["alpha"]))
    coefficients = summary["coefficients"]
    more = f", the strongest {MAX_ROWS}" * (len(coefficients) > MAX_ROWS)
    console.print(f"\n[bold]coefficients{more}[/bold]")
    console.print(coefficient_table(coefficients))


def describe_evaluation(
    model: "BaseMatcher",
    table: "EdgeTable",
    matchings: list[IntArray],
    marginals: list[FloatArray] | None,
) -> dict[str, Any]:
    """Collect how good predictions are, as plain lists and numbers, None if unknown."""
    from permatch.metrics import calibration, hamming_loss

    truth = table.matchings or []
    aligned = table.align_extras(matchings)
    losses = np.array([hamming_loss([a], [b]) for a, b in zip(truth, aligned, strict=True)])
    sizes = np.array([graph.size for graph in table.graphs])
    log_likelihood = error = None
    if marginals is not None:
        log_likelihood = model.log_likelihood(table.graphs, truth)
        error = float(calibration(marginals, truth).expected_calibration_error)
    return {
        "n_graphs": len(table.graphs),
        "hamming_loss": float(losses.mean()),
        "exact_share": float((losses == 0.0).mean()),
        "log_likelihood": log_likelihood,
        "expected_calibration_error": error,
        "sizes": [
            {
                "size": int(size),
                "n_graphs": int((sizes == size).sum()),
                "hamming_loss": float(losses[sizes == size].mean()),
                "exact_share": float((losses[sizes == size] == 0.0).mean()),
            }
            for size in np.unique(sizes)
        ],
    }


def show_evaluation(console: Console, summary: dict[str, Any]) -> None:
    """Print an evaluation for people."""
    table = facts()
    table.add_row("model", Text(summary["model"]))
    sizes = {row["size"]: row["n_graphs"] for row in summary["sizes"]}
    words = _sizes_in_words(summary["n_graphs"], sizes)
    table.add_row("graphs", Text(f"{summary['edges']}: {words}"))
    table.add_row(
        "Hamming loss",
        f"{summary['hamming_loss']:.4f}, the share of nodes matched wrongly "
        f"({summary['decode']})",
    )
    table.add_row("exact matches", f"{percent(summary['exact_share'])} of the graphs")
    if summary["log_likelihood"] is not None:
        error = summary["expected_calibration_error"]
        table.add_row("log-likelihood", f"{summary['log_likelihood']:.4f} nats a graph")
        table.add_row("calibration", f"expected error {error:.4f}")
    console.print(table)
    rows = summary["sizes"]
    more = f", the {MAX_ROWS} most frequent" * (len(rows) > MAX_ROWS)
    console.print(f"\n[bold]by size{more}[/bold]")
    by_size = plain_table("size", "graphs", "Hamming loss", "exact matches")
    frequent = sorted(rows, key=lambda row: -row["n_graphs"])[:MAX_ROWS]
    for row in sorted(frequent, key=lambda row: row["size"]):
        by_size.add_row(
            str(row["size"]),
            str(row["n_graphs"]),
            f"{row['hamming_loss']:.4f}",
            percent(row["exact_share"]),
        )
    console.print(by_size)


def _sizes(table: "EdgeTable") -> dict[int, int]:
    """Count the graphs of every size."""
    return dict(sorted(Counter(graph.size for graph in table.graphs).items()))


def _sizes_in_words(n_graphs: int, sizes: dict[int, int]) -> str:
    low, high = min(sizes), max(sizes)
    span = f"size {low}" if low == high else f"sizes {low} to {high}"
    return f"{n_graphs}, {span}"


def path_table(path: list[dict[str, float]], chosen: float) -> Table:
    """Return the scores of all alphas tried, the chosen one marked."""
    has_spread = any(row["spread"] for row in path)
    table = plain_table("alpha", "mean", "spread" if has_spread else "", "")
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


def coefficient_table(coefficients: list[dict[str, Any]]) -> Table:
    """Return the coefficients, the weightiest first."""
    table = plain_table("feature", "coefficient", "per standard deviation")
    table.columns[0].justify = "left"
    table.columns[0].overflow = "fold"
    for row in sorted(coefficients, key=lambda row: -abs(row["per_deviation"]))[:MAX_ROWS]:
        table.add_row(
            Text(row["feature"]), f"{row['coef']:.6g}", f"{row['per_deviation']:.4g}"
        )
    return table


def facts() -> Table:
    """Return an empty table of names and what there is to say of them."""
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
