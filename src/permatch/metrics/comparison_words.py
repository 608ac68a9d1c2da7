"""A comparison of rankers as columns of tables, as text, and in words."""

import math
from typing import Any

import numpy as np

from permatch.metrics.significance import LEVEL

#: A comparison, `permatch.metrics.RankerComparison`, and one of its rows.
Comparison = Any
Row = Any

#: Columns of a table by name.
Columns = dict[str, list[Any]]


def row_columns(comparison: Comparison) -> Columns:
    """Return the columns of the table with a row per ranker and measure."""
    rows = comparison.rows
    return {
        "ranker": [row.ranker for row in rows],
        "measure": [str(row.measure) for row in rows],
        "baseline_mean": [row.baseline_mean for row in rows],
        "mean": [row.mean for row in rows],
        "difference": [row.difference for row in rows],
        "low": [row.interval[0] for row in rows],
        "high": [row.interval[1] for row in rows],
        "p_value": [row.p_value for row in rows],
        "p_holm": [row.p_holm for row in rows],
        "detectable": [row.detectable for row in rows],
        "n_wins": [row.n_wins for row in rows],
        "n_losses": [row.n_losses for row in rows],
        "n_ties": [row.n_ties for row in rows],
    }


def query_columns(comparison: Comparison) -> Columns:
    """Return the columns of the table with a row per query."""
    lists = comparison.lists
    columns: Columns = {
        "query": lists.queries.tolist(),
        "n_documents": np.diff(lists.starts).tolist(),
    }
    for j, measure in enumerate(comparison.measures):
        for i, ranker in enumerate(comparison.rankers):
            columns[f"{measure} {ranker}"] = comparison.values[i, j].tolist()
    return columns


#: What stands over the figures of `figures`.
HEADER = ("difference", "95 % interval", "p", "p (Holm)", "won", "lost", "tied")


def figures(row: Row) -> list[str]:
    """Return the difference of a row, and what is known of it, as cells of a table."""
    counts = [str(count) for count in (row.n_wins, row.n_losses, row.n_ties)]
    if math.isnan(row.p_value):
        return ["", "", "", "", *counts]
    low, high = row.interval
    return [
        f"{row.difference:+.4f}",
        f"{low:+.4f} to {high:+.4f}",
        f"{row.p_value:.3g}",
        f"{row.p_holm:.3g}",
        *counts,
    ]


def mean_of(value: float) -> str:
    """Write a mean, nothing if there is none."""
    return "" if math.isnan(value) else f"{value:.4f}"


def as_text(comparison: Comparison) -> str:
    """Return the table with a row per ranker and measure, and what it says."""
    parts = []
    for ranker in comparison.rankers[1:]:
        lines = [["measure", comparison.baseline, ranker, *HEADER]]
        for row in comparison.rows:
            if row.ranker == ranker:
                means = mean_of(row.baseline_mean), mean_of(row.mean)
                lines.append([str(row.measure), *means, *figures(row)])
        widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
        parts += [
            "  ".join(
                cell.rjust(width) if k else cell.ljust(width)
                for k, (cell, width) in enumerate(zip(line, widths, strict=True))
            )
            for line in lines
        ]
        parts.append(verdict(comparison, comparison.row(ranker)))
    return "\n".join(parts)


def verdict(comparison: Comparison, row: Row) -> str:
    """Say in words what a row shows, and what it does not."""
    ours, theirs, measure = row.ranker, comparison.baseline, row.measure
    if math.isnan(row.p_value):
        where = _queries(row.n_queries)
        return f"{measure} has a value on {where}; a test needs at least two."
    if row.n_ties == row.n_queries:
        return (
            f"{ours} and {theirs} have the same {measure} on all {row.n_queries} queries."
        )
    n_tests = sum(not math.isnan(own.p_value) for own in comparison.rows)
    after = f" after Holm's correction for {n_tests} tests" if n_tests > 1 else ""
    means = f"{row.mean:.4f} against {row.baseline_mean:.4f}"
    better, size = ("better" if row.difference > 0 else "worse"), abs(row.difference)
    if row.is_significant:
        return (
            f"{ours} is {better} than {theirs} in {measure} by {size:.4f} ({means}), more "
            f"than chance explains: p = {row.p_holm:.3g}{after}."
        )
    said = (
        f"{ours} is {better} than {theirs} in {measure} by {size:.4f} ({means}), which may "
        f"be chance: p = {row.p_holm:.3g}{after}."
    )
    n_unequal = row.n_wins + row.n_losses
    least = 2.0 ** (1 - n_unequal)
    if n_tests * least > LEVEL:
        return (
            f"{said} They differ on {_queries(n_unequal)}, where p cannot be below "
            f"{least:.3g}{_before(n_tests)}: too few to tell."
        )
    return (
        f"{said} A true difference of less than about {row.detectable:.2g} would be missed "
        f"on {row.n_queries} queries more than one time in five."
    )


def _before(n_tests: int) -> str:
    return " before the correction" if n_tests > 1 else ""


def _queries(number: int) -> str:
    return "1 query" if number == 1 else f"{number} queries"
