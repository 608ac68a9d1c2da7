"""Reports of ``permatch match`` on a fit and an evaluation."""

import math
from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import numpy as np
from rich.console import Console
from rich.text import Text

from permatch._types import FloatArray, IntArray
from permatch.cli.shared.report import (
    add_ending,
    describe_model,
    facts,
    percent,
    plural,
    show_path,
)
from permatch.cli.shared.trees import (
    add_growth,
    describe_trees,
    show_trees,
    size_in_words,
)

if TYPE_CHECKING:
    from permatch.datasets import EdgeTable
    from permatch.estimators import BaseMatcher


#: What is told of the calibration of probabilities.
CALIBRATION = (
    "expected_calibration_error",
    "n_plausible",
    "confidence",
    "accuracy",
    "node_calibration_error",
)


def describe_fit(
    model: Any, table: "EdgeTable", held_out: "EdgeTable | None", path: str, seconds: float
) -> dict[str, Any]:
    """Collect the results of a fit as plain lists and numbers."""
    valid_loss = None
    if held_out is not None:
        valid_loss = 1.0 - model.score(held_out.graphs, held_out.matchings)
    summary = describe_parts(model, path, seconds) | {
        **_describe_graphs(table),
        "hamming_loss": 1.0 - model.score(table.graphs, table.matchings),
        "valid_hamming_loss": valid_loss,
    }
    if model.unmatched_ == "any" and hasattr(model, "is_exact_"):  # it has probabilities
        from permatch.estimators.unmatched import expected_unmatched
        from permatch.labels import check_known

        known = check_known(table.graphs, table.matchings)
        summary["expected_unmatched"] = expected_unmatched(model, table.graphs, known)
    return summary


def describe_parts(
    model: Any, path: str, seconds: float, held_out: tuple[Any, Any] | None = None
) -> dict[str, Any]:
    """Collect the results of a fit to data that do not fit in memory."""
    is_trees = hasattr(model, "trees_")
    describe = describe_trees if is_trees else describe_model
    summary = describe(model, model.feature_names_, path, seconds) | {
        "engine": str(model.engine),
        "n_features": model.n_features_in_,
        "unmatched": model.unmatched_,
        "unmatched_score": float(model.unmatched_intercept_),
    }
    if held_out is not None:
        summary["valid_hamming_loss"] = 1.0 - model.score(*held_out)
    report = getattr(model, "engine_report_", None)
    if report is not None:
        summary["engine_report"] = {name: _plain(value) for name, value in report.items()}
    if "path" in summary and not is_trees:
        summary["path_evaluations"] = int(model.cv_results_["n_evaluations"].sum())
    return summary


def _plain(value: Any) -> Any:
    """Return a number as JSON has it: None if there is none."""
    return None if isinstance(value, float) and math.isnan(value) else value


def _describe_graphs(table: "EdgeTable") -> dict[str, Any]:
    """Count graphs, nodes and pairs."""
    graphs = table.graphs
    return {
        "n_graphs": len(graphs),
        "n_left": sum(graph.n_left for graph in graphs),
        "n_right": sum(graph.n_right for graph in graphs),
        "n_pairs": sum(graph.n_edges for graph in graphs),
    }


def show_fit(console: Console, summary: dict[str, Any]) -> None:
    """Print the summary of a fit for people."""
    table, is_trees = facts(), "importances" in summary
    size = size_in_words(summary) if is_trees else f"alpha {summary['alpha']:g}"
    model = (
        f"{summary['model']}: {summary['estimator']}, {size}, engine {summary['engine']}"
    )
    table.add_row("model", Text(model))
    if "n_graphs" in summary:  # not of data in parts
        table.add_row("graphs", _graphs_in_words(summary))
    if "engine_report" in summary:
        from permatch.estimators.fit_plan import in_words

        table.add_row("inference", in_words(summary["engine_report"]))
    table.add_row("features", str(summary["n_features"]))
    table.add_row("unmatched", _unmatched_in_words(summary))
    if "expected_unmatched" in summary:
        from permatch.estimators.unmatched import unmatched_in_words

        n_nodes = summary["n_left"], summary["n_right"]
        words = unmatched_in_words(summary["expected_unmatched"], n_nodes, "node")
        table.add_row("", words[0].lower() + words[1:-1])
    (add_growth if is_trees else add_ending)(table, summary)
    if "hamming_loss" in summary:
        loss = percent(summary["hamming_loss"])
        table.add_row("Hamming loss", f"{loss} of training nodes")
    if summary.get("valid_hamming_loss") is not None:
        loss = percent(summary["valid_hamming_loss"])
        table.add_row(
            "" if "hamming_loss" in summary else "Hamming loss",
            f"{loss} of validation nodes",
        )
    console.print(table)
    title = ""
    if "path" in summary:
        name = summary["scoring"].replace("_", "-")
        where = f"{summary['n_splits']} folds" if summary["n_splits"] > 1 else "validation"
        title = f"{name} of {where}"
        if name == "log-evidence":
            title = "by evidence, which holds no graphs out"
        if is_trees:
            title = f"minus {title}" if name == "hamming" else title
        else:
            title += f", {summary['path_evaluations']} evaluations"
    (show_trees if is_trees else show_path)(console, summary, title)


def _unmatched_in_words(summary: dict[str, Any]) -> str:
    if summary["unmatched"] == "larger":
        return "only nodes left over on the larger side of a graph"
    return f"any node, at the score {summary['unmatched_score']:.6g} (learned)"


def describe_evaluation(
    model: "BaseMatcher",
    table: "EdgeTable",
    matchings: list[IntArray],
    chances: list[FloatArray] | None,
) -> dict[str, Any]:
    """Collect the quality of predictions as plain lists and numbers, None if unknown."""
    from permatch.metrics import link_quality
    from permatch.metrics.matching import graph_losses

    graphs, truth = table.graphs, table.matchings or []
    losses = graph_losses(truth, matchings, graphs)
    losses = losses[~np.isnan(losses)]
    links = link_quality(truth, matchings, graphs=graphs)
    log_likelihood = None
    if chances is not None:
        log_likelihood = model.log_likelihood(graphs, truth)
    return {
        **_describe_graphs(table),
        "n_true": links.n_true,
        "n_found": links.n_found,
        "n_correct": links.n_correct,
        "n_review": int(sum((matching < -1).sum() for matching in matchings)),
        "precision": links.precision,
        "recall": links.recall,
        "f1": links.f1,
        "hamming_loss": float(losses.mean()) if len(losses) else None,
        "exact_share": float((losses == 0.0).mean()) if len(losses) else None,
        "log_likelihood": log_likelihood,
        **_describe_calibration(chances, truth, graphs),
    }


def _describe_calibration(
    chances: list[FloatArray] | None, truth: Sequence[Any], graphs: Sequence[Any]
) -> dict[str, Any]:
    """Return how far off probabilities are, over plausible pairs and over left nodes."""
    from permatch.errors import InvalidGraphError
    from permatch.metrics import calibration, node_calibration

    found: dict[str, Any] = dict.fromkeys(CALIBRATION)
    if chances is None:
        return found
    with suppress(InvalidGraphError):  # no pair is plausible
        pairs = calibration(chances, truth, graphs=graphs)
        found["n_plausible"] = int(pairs.counts.sum())
        found["expected_calibration_error"] = pairs.expected_calibration_error
    with suppress(InvalidGraphError):  # of no node it is known
        nodes = node_calibration(chances, truth, graphs=graphs)
        found["confidence"], found["accuracy"] = nodes.confidence, nodes.accuracy
        found["node_calibration_error"] = nodes.expected_calibration_error
    return found


def show_evaluation(console: Console, summary: dict[str, Any]) -> None:
    """Print an evaluation for people."""
    from permatch.metrics.calibration import PLAUSIBLE

    table = facts()
    table.add_row("model", Text(summary["model"]))
    table.add_row("graphs", Text(f"{summary['edges']}: {_graphs_in_words(summary)}"))
    n_correct = summary["n_correct"]
    table.add_row(
        "precision",
        f"{summary['precision']:.4f}, {n_correct} of {plural(summary['n_found'], 'link')} "
        f"found ({summary['decode']})",
    )
    table.add_row(
        "recall",
        f"{summary['recall']:.4f}, {n_correct} of {plural(summary['n_true'], 'true link')}",
    )
    table.add_row("F1", f"{summary['f1']:.4f}")
    if summary["n_review"]:
        table.add_row("review", f"{plural(summary['n_review'], 'node')} left to a person")
    table.add_row(
        "Hamming loss",
        f"{summary['hamming_loss']:.4f}, the share of left nodes with a wrong answer, "
        "averaged over graphs",
    )
    table.add_row("exact matches", f"{percent(summary['exact_share'])} of the graphs")
    if summary["log_likelihood"] is not None:
        table.add_row("log-likelihood", f"{summary['log_likelihood']:.4f} nats per graph")
    if summary["expected_calibration_error"] is not None:
        table.add_row(
            "calibration",
            f"expected error {summary['expected_calibration_error']:.4f} over "
            f"{plural(summary['n_plausible'], 'pair')} of probability {PLAUSIBLE:g} or "
            "more",
        )
    if summary["confidence"] is not None:
        table.add_row(
            "confidence",
            f"{summary['confidence']:.4f}, the mean probability of the likeliest answer "
            f"for a left node; {summary['accuracy']:.4f} of these are right",
        )
    console.print(table)


def _graphs_in_words(summary: dict[str, Any]) -> str:
    return (
        f"{summary['n_graphs']}, with {summary['n_left']} left and {summary['n_right']} "
        f"right nodes and {plural(summary['n_pairs'], 'candidate pair')}"
    )
