"""What ``permatch rank compare`` does: read, score, compare, and report."""

from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table
from rich.text import Text

from permatch.cli.rank.measures import collect_scores, describe_judged
from permatch.cli.rank.options import Columns
from permatch.cli.rank.report import add_judged, count_queries
from permatch.cli.rank.scoring import check_same_features
from permatch.cli.rank.steps import load_ranker
from permatch.cli.shared.report import facts, plain_table
from permatch.datasets.judged import find_form
from permatch.datasets.runs import find_source, is_json
from permatch.datasets.sources import Copy, local_file
from permatch.errors import ModelFileError
from permatch.metrics import RankerComparison
from permatch.metrics.comparing import COMPARED, compare_scores
from permatch.metrics.comparison_words import HEADER, figures, mean_of, verdict

# Queries listed as most won, and as most lost.
_N_LISTED = 5

# Columns of a console with room for all figures; on others there are so many.
_WIDE, _N_BASIC = 98, 4


def compare_files(
    sources: list[str],
    judged: str,
    columns: Columns,
    *,
    measures: list[str] | None,
    **tests: Any,
) -> RankerComparison:
    """Compare models and files of scores on a judged file."""
    tests["measures"] = measures or COMPARED
    with ExitStack() as stack:
        file = stack.enter_context(local_file(judged))
        if is_json(file):
            raise ModelFileError(
                f"{file} must be judged documents, which come last: MODEL MODEL FILE; it "
                "is JSON, as models are. Name a LETOR file, or a table."
            )
        rankers: dict[str, Any] = {}
        for name, source in zip(_labels(sources), sources, strict=True):
            path = stack.enter_context(local_file(source))
            is_model = find_source(path) == "model"
            rankers[name] = load_ranker(path) if is_model else path
        models = {
            source: ranker
            for source, ranker in zip(sources, rankers.values(), strict=True)
            if not isinstance(ranker, Path | Copy)
        }
        if find_form(file) != "table":
            check_same_features(list(models), list(models.values()))
        found = collect_scores([file], list(rankers.values()), columns, is_named=True)
    scores = dict(zip(rankers, found.scores, strict=True))
    names = found.documents
    return compare_scores(scores, found.grades, found.qid, documents=names, **tests)


def _labels(paths: list[str]) -> list[str]:
    """Return the names of files, with their folders if they are the same."""
    names = [Path(path).name for path in paths]
    return names if len({*names}) == len(names) else paths


def describe_comparison(
    comparison: RankerComparison, sources: list[str], judged: str
) -> dict[str, Any]:
    """Collect a comparison as plain lists and numbers."""
    lists, listed = comparison.lists, {}
    for ranker in comparison.rankers[1:]:
        listed[ranker] = {
            name: [
                {
                    "query": found.query,
                    "baseline": found.baseline,
                    "value": found.value,
                    "difference": found.difference,
                }
                for found in best(_N_LISTED, ranker)
            ]
            for name, best in (
                ("most_won", comparison.most_won),
                ("most_lost", comparison.most_lost),
            )
        }
    owners = np.repeat(np.arange(len(lists.queries)), np.diff(lists.starts))
    return {
        "rankers": dict(zip(comparison.rankers, sources, strict=True)),
        "baseline": comparison.baseline,
        "files": [judged],
        **describe_judged(lists.grades, owners, comparison.measures),
        "comparisons": describe_rows(comparison),
        "queries": listed,
    }


def describe_rows(comparison: RankerComparison) -> list[dict[str, Any]]:
    """Collect the figures of every ranker by every measure."""
    return [_row(comparison, row) for row in comparison.rows]


def _row(comparison: RankerComparison, row: Any) -> dict[str, Any]:
    found = {
        "ranker": row.ranker,
        "measure": str(row.measure),
        "baseline_mean": row.baseline_mean,
        "mean": row.mean,
        "difference": row.difference,
        "low": row.interval[0],
        "high": row.interval[1],
        "p_value": row.p_value,
        "p_value_holm": row.p_holm,
        "detectable": row.detectable,
    }
    known = {name: None if value != value else value for name, value in found.items()}
    return known | {
        "n_wins": row.n_wins,
        "n_losses": row.n_losses,
        "n_ties": row.n_ties,
        "is_significant": row.is_significant,
        "verdict": verdict(comparison, row),
    }


def show_comparison(
    console: Console, summary: dict[str, Any], comparison: RankerComparison
) -> None:
    """Print a comparison for people."""
    table = facts()
    for name, path in summary["rankers"].items():
        is_baseline = name == summary["baseline"]
        table.add_row("baseline" if is_baseline else "against", Text(path))
    add_judged(table, summary)
    console.print(table)
    for ranker, queries in summary["queries"].items():
        console.print()
        if len(summary["queries"]) > 1:
            console.print(Text(ranker, style="bold"))
        console.print(_figures(comparison, ranker, is_wide=console.width >= _WIDE))
        row = comparison.row(ranker)
        console.print(Text(verdict(comparison, row)))
        found = facts()
        for number, name in ((row.n_wins, "won"), (row.n_losses, "lost")):
            most = [
                f"{own['query']} ({own['difference']:+.4f})"
                for own in queries[f"most_{name}"]
            ]
            words = [count_queries(number)]
            words += [f"most clearly {', '.join(most)}"] if most else []
            found.add_row(name, Text(", ".join(words)))
        console.print(found)
    for path in summary["written"]:
        console.print(Text(f"wrote {path}"))


def show_against(console: Console, comparison: RankerComparison) -> None:
    """Print how a method compares with another one, on the same queries."""
    (ranker,) = comparison.rankers[1:]
    console.print()
    console.print(Text(f"{ranker} against {comparison.baseline}", style="bold"))
    console.print(_figures(comparison, ranker, is_wide=console.width >= _WIDE))
    row = comparison.row(ranker)
    console.print(Text(verdict(comparison, row)))
    counts = f"{count_queries(row.n_wins)} won, {row.n_losses} lost, {row.n_ties} as good."
    console.print(Text(f"{counts} Means here are over all test queries, above over folds."))


def _figures(comparison: RankerComparison, ranker: str, *, is_wide: bool) -> Table:
    """Return the figures of a ranker; queries are counted where there is room."""
    header = HEADER if is_wide else HEADER[:_N_BASIC]
    table = plain_table("measure", "baseline", "mean", *header)
    first = table.columns[0]
    first.justify, first.overflow, first.no_wrap, first.min_width = "left", "fold", False, 7
    for measure in comparison.measures:
        row = comparison.row(ranker, measure)
        means = mean_of(row.baseline_mean), mean_of(row.mean)
        table.add_row(Text(str(measure)), *means, *figures(row)[: len(header)])
    return table
