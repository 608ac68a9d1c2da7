"""What ``permatch infer`` prints, and the accuracy it reports."""

import math
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from rich.console import Console
from rich.table import Table
from rich.text import Text

from permatch.cli.shared.report import (
    facts,
    join_edges,
    join_pairs,
    percent,
    percent_of_log,
    plain_table,
    plural,
)

if TYPE_CHECKING:
    from permatch.distribution import MatchingDistribution
    from permatch.inference import Diagnostics

#: Largest graph whose marginals are all printed; beyond it, the best edges per row.
MAX_GRID = 12
N_BEST_EDGES = 3
#: Rows printed of a large graph; the JSON has them all.
MAX_LISTED = 200
#: Distinct samples printed; the JSON has them all.
MAX_DISTINCT = 10

_ALONE = "unmatched"
_MEANINGS = {
    "rigorous": "the error bound is guaranteed",
    "asymptotic": "standard errors, reliable for many samples",
    "heuristic": "the error has no guarantee",
}


def describe_accuracy(distribution: "MatchingDistribution") -> dict[str, Any]:
    """Collect what is known about the error."""
    told = distribution.diagnostics
    found = _describe_errors(told) | {
        "log_partition_error": _finite(distribution.log_partition_error),
        "seconds": told.seconds,
        "steps": [_describe_step(step) for step in told.steps],
    }
    return found | {"marginal_error": 0.0} if distribution.is_exact else found


def _describe_step(step: "Diagnostics") -> dict[str, Any]:
    return {
        "engine": step.engine,
        "seconds": step.seconds,
        **_describe_errors(step),
        "n_samples": step.n_samples,
        "effective_samples": _finite(step.effective_samples),
        "reason": step.reason,
    }


def _describe_errors(told: "Diagnostics") -> dict[str, Any]:
    return {
        "certificate": told.certificate,
        "is_converged": told.is_converged,
        "log_partition_error": _finite(told.log_partition_error),
        "interval": told.interval,
        "interval_certificate": told.interval_certificate,
        "interval_delta": told.delta,
        "marginal_error": _finite(told.marginal_error),
    }


def _finite(value: float | None) -> float | None:
    """Return a finite number or None, for JSON."""
    return value if value is not None and math.isfinite(value) else None


def accuracy_rows(summary: dict[str, Any]) -> list[tuple[str, str]]:
    """Return label and text of the accuracy of an approximate result."""
    if summary["is_exact"]:
        return []
    certificate = summary["certificate"]
    met = "" if summary["is_converged"] else "; the tolerance was not reached"
    rows = [("certificate", f"{certificate}: {_MEANINGS[certificate]}{met}")]
    if summary["interval"] is not None:
        low, high = summary["interval"]
        meaning = _interval_meaning(
            summary["interval_certificate"], summary["interval_delta"]
        )
        rows.append(("interval", f"log-partition from {low:.8g} to {high:.8g}, {meaning}"))
    if (error := summary["marginal_error"]) is not None:
        what = "error" if certificate == "rigorous" else "standard error"
        rows.append(("edges", f"{what} of a probability: at most {error:.2g}"))
    return rows


def _interval_meaning(certificate: str, delta: float) -> str:
    """Return what an interval guarantees."""
    if certificate != "rigorous":
        return "estimated from samples"
    return f"holds with probability {1 - delta:g}" if delta else "guaranteed"


def log_partition_text(summary: dict[str, Any]) -> str:
    """Write the log-partition with as many digits as are known."""
    value, error = summary["log_partition"], summary["log_partition_error"]
    if summary["is_exact"] or error is None or error < 1e-9:
        return f"{value:.12g}"
    n_digits = max(0, 1 - math.floor(math.log10(error)))
    return f"{value:.{n_digits}f} ± {error:.{n_digits}f}"


def steps_table(steps: list[dict[str, Any]]) -> Table:
    """Lay out the engines tried in turn."""
    table = plain_table()
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


def show(console: Console, summary: dict[str, Any]) -> None:
    """Print a summary for people."""
    labels = summary["row_labels"], summary["column_labels"]
    shape = summary["n_left"], summary["n_right"]
    exact = "exact" if summary["is_exact"] else "approximate"
    if exact == "approximate" and summary["certificate"] == "rigorous":
        exact = "with a certified error"
    table = facts()
    table.add_row("graph", Text(f"{summary['file']}: {_graph_in_words(summary)}"))
    if summary["given"]:
        table.add_row("given", Text(join_pairs(summary["given"], *labels)))
    table.add_row("engine", Text(f"{summary['engine']}, {exact} ({summary['reason']})"))
    table.add_row("log-partition", log_partition_text(summary))
    for label, text in accuracy_rows(summary):
        table.add_row(label, text)
    if summary["entropy"] is not None:
        entropy = summary["entropy"]
        table.add_row(
            "entropy", f"{entropy:.6g} nats, like {_many(entropy)} equally likely matchings"
        )
    table.add_row("best matching", _in_words(summary["mode"], labels))
    if (bayes := summary["bayes_matching"]) is not None:
        table.add_row("Bayes matching", _in_words(bayes, labels))
        right, nodes = _expected_right(summary), plural(shape[0], "row")
        table.add_row("", f"expected to be correct: {right:.2f} of {nodes}")
    console.print(table)
    if summary["steps"]:
        console.print("\n[bold]engines tried[/bold]")
        console.print(steps_table(summary["steps"]))
    if summary["k_best"]:
        found = plural(len(summary["k_best"]), "most probable matching")
        console.print(f"\n[bold]{found}[/bold]")
        console.print(_best_table(summary["k_best"], labels))
    if summary["marginals"] is not None and min(shape) > 0:
        whole = max(shape) <= MAX_GRID
        title = "probability of each edge, percent" if whole else "best edges of each row"
        more = f", the first {MAX_LISTED} rows" * (not whole and shape[0] > MAX_LISTED)
        console.print(f"\n[bold]{title}{more}[/bold]")
        console.print(marginals_table(Chances.of(summary)))
    if "samples" in summary:
        counts = Counter(map(tuple, summary["samples"])).most_common()
        more = f", the {MAX_DISTINCT} most frequent" * (len(counts) > MAX_DISTINCT)
        drawn = plural(len(summary["samples"]), "sample")
        console.print(f"\n[bold]{drawn}, {len(counts)} distinct{more}[/bold]")
        console.print(_samples_table(counts[:MAX_DISTINCT], labels))


def _graph_in_words(summary: dict[str, Any]) -> str:
    n_left, n_right = summary["n_left"], summary["n_right"]
    if summary["edges"] is not None:
        return f"{n_left} x {n_right}, {plural(summary['n_edges'], 'candidate pair')}"
    n_forbidden = summary["n_forbidden"]
    forbidden = f", {plural(n_forbidden, 'edge')} forbidden" * (n_forbidden > 0)
    return f"{n_left} x {n_right}{forbidden}"


def _expected_right(summary: dict[str, Any]) -> float:
    """Return the expected number of rows whose partner, or none, is right."""
    chances = Chances.of(summary)
    alone = summary["unmatched_left"]
    matching = summary["bayes_matching"]["matching"]
    found = [alone[i] for i, j in enumerate(matching) if j < 0]
    at = {
        (i, j): p
        for i, j, p in zip(chances.rows, chances.cols, chances.values, strict=True)
    }
    return sum(found) + sum(at.get((i, j), 0.0) for i, j in enumerate(matching) if j >= 0)


def _many(entropy: float) -> str:
    return f"{np.exp(entropy):.1f}" if entropy < 10 else f"{np.exp(min(entropy, 700)):.2g}"


def _in_words(found: dict[str, Any], labels: tuple) -> Text:
    edges = join_edges(found["matching"], *labels)
    return Text(f"{edges}  (probability {percent_of_log(found['log_probability'])})")


def _best_table(best: list[dict[str, Any]], labels: tuple) -> Table:
    table = plain_table("#", "probability", "score")
    named = labels != (None, None)
    table.add_column("edges" if named else "columns of rows 0, 1, ...", overflow="fold")
    for rank, found in enumerate(best, start=1):
        edges = join_edges(found["matching"], *labels)
        table.add_row(
            str(rank),
            percent_of_log(found["log_probability"]),
            f"{found['score']:.6g}",
            Text(edges),
        )
    return table


def _samples_table(counts: list[tuple[tuple[int, ...], int]], labels: tuple) -> Table:
    table = plain_table("drawn")
    table.add_column("matching", overflow="fold")
    for matching, count in counts:
        table.add_row(str(count), Text(join_edges(list(matching), *labels)))
    return table


@dataclass(frozen=True)
class Chances:
    """Edge probabilities as lists, and the names and unmatched probabilities of nodes."""

    rows: list[int]
    cols: list[int]
    values: list[float]
    row_names: list[str]
    col_names: list[str]
    alone_left: list[float]
    alone_right: list[float]

    @classmethod
    def of(cls, summary: dict[str, Any]) -> "Chances":
        """Collect them from a summary."""
        marginals, edges = summary["marginals"], summary["edges"]
        if edges is None:
            table = np.array(marginals).reshape(summary["n_left"], summary["n_right"])
            rows, cols = np.indices(table.shape).reshape(2, -1)
            marginals = table.ravel().tolist()
        else:
            rows, cols = np.array(edges, dtype=int).reshape(-1, 2).T
        return cls(
            rows.tolist(),
            cols.tolist(),
            marginals,
            summary["row_labels"] or [str(k) for k in range(summary["n_left"])],
            summary["column_labels"] or [str(k) for k in range(summary["n_right"])],
            summary["unmatched_left"],
            summary["unmatched_right"],
        )


def marginals_table(chances: Chances) -> Table:
    """Lay out edge probabilities: all, or the best per row if the graph is large."""
    n_rows, n_cols = len(chances.row_names), len(chances.col_names)
    if max(n_rows, n_cols) > MAX_GRID:
        return _best_edges_table(chances)
    has_left, has_right = any(chances.alone_left), any(chances.alone_right)
    grid: list[list[Text]] = [[_cell(0.0)] * n_cols for _ in range(n_rows)]
    for i, j, chance in zip(chances.rows, chances.cols, chances.values, strict=True):
        grid[i][j] = _cell(chance)
    table = plain_table()
    table.add_column("", no_wrap=True)
    for col in chances.col_names:
        table.add_column(Text(col), justify="right", min_width=2)
    if has_left:
        table.add_column(_ALONE, justify="right")
    for name, cells, alone in zip(chances.row_names, grid, chances.alone_left, strict=True):
        table.add_row(Text(name), *cells, *([_cell(alone)] * has_left))
    if has_right:
        table.add_row(_ALONE, *map(_cell, chances.alone_right))
    return table


def _best_edges_table(chances: Chances) -> Table:
    table = plain_table()
    table.add_column("", no_wrap=True)
    for _ in range(N_BEST_EDGES):
        table.add_column("")
    of_row: list[list[tuple[float, str]]] = [[] for _ in chances.row_names]
    for i, j, chance in zip(chances.rows, chances.cols, chances.values, strict=True):
        of_row[i].append((chance, chances.col_names[j]))
    for name, found, alone in zip(
        chances.row_names[:MAX_LISTED], of_row, chances.alone_left, strict=False
    ):
        found += [(alone, _ALONE)] * (alone > 0.0)
        best = sorted(found, key=lambda pair: -pair[0])[:N_BEST_EDGES]
        cells = [Text(f"{col}  {percent(p)}", style=_style(p)) for p, col in best]
        table.add_row(Text(name), *cells)
    return table


def _cell(chance: float) -> Text:
    """Write a probability as a whole percentage, or a dot below half a percent."""
    if chance < 0.005:
        return Text(".", style="dim")
    return Text(f"{100 * chance:.0f}", style=_style(chance))


def _style(chance: float) -> str:
    return "bold green" if chance > 0.5 else "" if chance > 0.05 else "dim"
