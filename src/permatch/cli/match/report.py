"""Reports of ``permatch match`` on a fit and an evaluation."""

from collections import Counter
from typing import TYPE_CHECKING, Any

import numpy as np
from rich.console import Console
from rich.text import Text

from permatch._types import FloatArray, IntArray
from permatch.cli.shared.report import (
    MAX_ROWS,
    add_ending,
    describe_model,
    facts,
    percent,
    plain_table,
    show_path,
)

if TYPE_CHECKING:
    from permatch.datasets import EdgeTable
    from permatch.estimators import BaseMatcher


def describe_fit(
    model: Any, table: "EdgeTable", held_out: "EdgeTable | None", path: str, seconds: float
) -> dict[str, Any]:
    """Collect the results of a fit as plain lists and numbers."""
    valid_loss = None
    if held_out is not None:
        valid_loss = 1.0 - model.score(held_out.graphs, held_out.matchings)
    summary = describe_model(model, table.feature_names, path, seconds) | {
        "engine": str(model.engine),
        "n_graphs": len(table.graphs),
        "sizes": dict(sorted(Counter(graph.size for graph in table.graphs).items())),
        "n_features": len(table.feature_names),
        "hamming_loss": 1.0 - model.score(table.graphs, table.matchings),
        "valid_hamming_loss": valid_loss,
    }
    if "path" in summary:
        summary["path_evaluations"] = int(model.cv_results_["n_evaluations"].sum())
    return summary


def show_fit(console: Console, summary: dict[str, Any]) -> None:
    """Print the summary of a fit for people."""
    table = facts()
    model = (
        f"{summary['model']}: {summary['estimator']}, alpha {summary['alpha']:g}, engine "
        f"{summary['engine']}"
    )
    table.add_row("model", Text(model))
    table.add_row("graphs", _sizes_in_words(summary["n_graphs"], summary["sizes"]))
    table.add_row("features", str(summary["n_features"]))
    add_ending(table, summary)
    table.add_row("Hamming loss", f"{percent(summary['hamming_loss'])} of training nodes")
    if summary["valid_hamming_loss"] is not None:
        table.add_row("", f"{percent(summary['valid_hamming_loss'])} of validation nodes")
    console.print(table)
    title = ""
    if "path" in summary:
        name = summary["scoring"].replace("_", "-")
        where = f"{summary['n_splits']} folds" if summary["n_splits"] > 1 else "validation"
        title = f"{name} of {where}, {summary['path_evaluations']} evaluations"
    show_path(console, summary, title)


def describe_evaluation(
    model: "BaseMatcher",
    table: "EdgeTable",
    matchings: list[IntArray],
    marginals: list[FloatArray] | None,
) -> dict[str, Any]:
    """Collect the quality of predictions as plain lists and numbers, None if unknown."""
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
        table.add_row("log-likelihood", f"{summary['log_likelihood']:.4f} nats per graph")
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


def _sizes_in_words(n_graphs: int, sizes: dict[int, int]) -> str:
    low, high = min(sizes), max(sizes)
    span = f"size {low}" if low == high else f"sizes {low} to {high}"
    return f"{n_graphs}, {span}"
