"""Reports of ``permatch rank`` on a fit and an evaluation."""

from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table
from rich.text import Text

from permatch.cli.rank.measures import mean_values
from permatch.cli.shared.report import (
    add_ending,
    describe_model,
    facts,
    number,
    plain_table,
    plural,
    show_path,
)
from permatch.cli.shared.trees import (
    add_growth,
    describe_trees,
    show_trees,
    size_in_words,
)
from permatch.queries import QuerySet, check_queries


def describe_fit(
    model: Any, parts: dict[str, Any], metric: list[str] | None, path: str, seconds: float
) -> dict[str, Any]:
    """Collect the results of a fit as plain lists and numbers.

    `parts` are the training data, and perhaps others, unless they do not fit in memory.
    """
    measures, read = {}, {}
    for name, data in parts.items():
        queries = check_queries(data.X, data.y, data.qid)
        scores = model.predict(queries.documents, group=queries.lengths)
        read[name] = _describe_data(queries)
        measures[name] = mean_values(metric, queries.grades, scores, queries.lengths)
    names = model.feature_names_ or [
        f"feature {k}" for k in range(1, model.n_features_in_ + 1)
    ]
    is_trees = hasattr(model, "trees_")
    describe = describe_trees if is_trees else describe_model
    return describe(model, names, path, seconds) | {
        "subset_size": "all" if is_trees else getattr(model, "subset_size", None),
        "scaling": model.scaling,
        "is_servable": model.is_servable,
        "data": read,
        "n_observations": int(model.n_observations_),
        "forms": getattr(model, "forms_", None),
        "measures": measures,
    }


def _describe_data(queries: QuerySet) -> dict[str, Any]:
    lows = np.minimum.reduceat(queries.grades, queries.starts[:-1])
    highs = np.maximum.reduceat(queries.grades, queries.starts[:-1])
    grades, counts = np.unique(queries.grades, return_counts=True)
    return {
        "n_documents": queries.n_documents,
        "n_queries": queries.n_queries,
        "n_features": queries.n_features,
        "lengths": [int(queries.lengths.min()), int(queries.lengths.max())],
        "grades": dict(zip(map(str, grades.tolist()), counts.tolist(), strict=True)),
        "n_queries_of_one_grade": int((lows == highs).sum()),
    }


def show_fit(console: Console, summary: dict[str, Any]) -> None:
    """Print the summary of a fit for people."""
    table, is_trees = facts(), "importances" in summary
    size = size_in_words(summary) if is_trees else f"alpha {summary['alpha']:g}"
    model = f"{summary['model']}: {summary['estimator']} on {_observed(summary)}, {size}"
    table.add_row("model", Text(model))
    if not summary["is_servable"]:
        table.add_row(
            "serving",
            f"cannot be exported: {summary['scaling']} scaling needs all documents of a "
            "query; --scaling none can",
        )
    for name, data in summary["data"].items():
        table.add_row(name, _data_in_words(data))
        counts = [f"{grade}: {count}" for grade, count in data["grades"].items()]
        table.add_row("", f"grades {', '.join(counts)}")
    table.add_row("learned from", _observations_in_words(summary))
    add = add_growth if is_trees else add_ending
    add(table, summary)
    console.print(table)
    if summary["measures"]:
        console.print("\n[bold]measures, mean over queries[/bold]")
        console.print(_means_table(summary["measures"]))
    title = ""
    if "path" in summary:
        n_splits = summary["n_splits"]
        where = f"{n_splits} folds" if n_splits > 1 else "the validation file"
        title = f"{summary['scoring']} on {where}"
        if summary["scoring"] == "log-evidence":
            title = "by evidence, which holds no queries out"
    show = show_trees if is_trees else show_path
    show(console, summary, title)


def show_evaluation(console: Console, summary: dict[str, Any]) -> None:
    """Print an evaluation for people."""
    table = facts()
    table.add_row("scores of", Text(summary["scores_of"]))
    add_judged(table, summary)
    console.print(table)
    console.print()
    table = plain_table("measure", "mean", "standard error", "queries")
    table.columns[0].justify = "left"
    for row in summary["measures"]:
        figures = number(row["mean"]), number(row["standard_error"])
        table.add_row(row["measure"], *figures, str(row["n_queries"]))
    console.print(table)


def add_judged(table: Table, summary: dict[str, Any]) -> None:
    """Add what judged files hold to a table of facts."""
    words = f"{count_queries(summary['n_queries'])}, {summary['n_documents']} documents"
    table.add_row("judged", Text(f"{', '.join(summary['files'])}: {words}"))
    if n_without := summary["n_queries_without_relevant"]:
        table.add_row("", f"{n_without} without relevant documents count 0")


def count_queries(number: int) -> str:
    """Write a number of queries."""
    return f"{number} {'query' if number == 1 else 'queries'}"


def _data_in_words(data: dict[str, Any]) -> str:
    low, high = data["lengths"]
    span = f"{low}" if low == high else f"{low} to {high}"
    return (
        f"{count_queries(data['n_queries'])} of {span} documents, {data['n_documents']} "
        f"in total, {data['n_features']} features"
    )


def _observed(summary: dict[str, Any]) -> str:
    size = summary["subset_size"]
    if size is None:  # ridge regression
        return "single documents"
    named = {"all": "whole lists", "pairs": "pairs", "grades": "one document of each grade"}
    return named.get(size, f"subsets of {size}")


def _observations_in_words(summary: dict[str, Any]) -> str:
    if summary["subset_size"] is None:  # ridge regression
        return plural(summary["n_observations"], "document")
    n_one = summary["data"].get("train", {}).get("n_queries_of_one_grade", 0)
    skipped = f"; skipped {count_queries(n_one)} with a single grade" * (n_one > 0)
    if summary["forms"] is None:
        return f"{plural(summary['n_observations'], 'observation')}{skipped}"
    forms = summary["forms"]
    kinds = [f"{forms[name]} {name}" for name in ("exact", "profile") if forms[name]]
    return f"{plural(summary['n_observations'], 'list')}, {', '.join(kinds)}{skipped}"


def _means_table(measures: dict[str, dict[str, float]]) -> Table:
    table = plain_table("measure", *measures)
    table.columns[0].justify = "left"
    for name in measures["train"]:
        table.add_row(name, *(number(part[name]) for part in measures.values()))
    return table
