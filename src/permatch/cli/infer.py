"""``permatch infer``: everything the distribution over matchings says about one graph."""

import json
from collections import Counter
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from permatch.cli.score_file import ScoreFile, read_scores
from permatch.cli.terminal import (
    join_edges,
    one_line_errors,
    percent,
    printing,
)

if TYPE_CHECKING:
    from permatch.distribution import MatchingDistribution

#: Largest graph whose marginals are printed whole; beyond it, the best edges of each row.
MAX_GRID = 12
N_BEST_EDGES = 3
#: Distinct samples printed; the JSON has them all.
MAX_DISTINCT = 10


def _check_engine(name: str) -> str:
    """Refuse unknown engines as wrong usage, listing the known ones."""
    from permatch.inference import ENGINES

    if name not in ENGINES:
        raise typer.BadParameter(f"{name!r} is not one of {', '.join(ENGINES)}.")
    return name


def _check_jobs(jobs: int) -> int:
    if jobs == 0:
        raise typer.BadParameter("0 threads cannot work; -1 means all processors.")
    return jobs


def infer(
    file: Annotated[
        str,
        typer.Argument(
            metavar="FILE",
            help="Square matrix of scores: .csv, .tsv, .txt or .npy; - is standard input.",
            show_default=False,
        ),
    ],
    engine: Annotated[
        str,
        typer.Option(
            "--engine",
            "-e",
            metavar="NAME",
            help="Algorithm; `permatch engines` lists them.",
            callback=_check_engine,
        ),
    ] = "auto",
    k: Annotated[
        int, typer.Option("--k", "-k", min=0, help="Most probable matchings to list.")
    ] = 5,
    samples: Annotated[
        int, typer.Option("--samples", "-n", min=0, help="Random matchings to draw.")
    ] = 0,
    seed: Annotated[int, typer.Option("--seed", min=0, help="Seed of the samples.")] = 0,
    jobs: Annotated[
        int,
        typer.Option(
            "--jobs",
            "-j",
            help="Threads, -1 for all processors; the answer is the same.",
            callback=_check_jobs,
        ),
    ] = 1,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print one JSON object and nothing else.")
    ] = False,
    debug: Annotated[
        bool, typer.Option("--debug", help="Show the traceback of a failure.")
    ] = False,
) -> None:
    r"""Print the distribution over the perfect matchings of one graph.

    A matching's probability is proportional to exp(sum of the scores of its
    edges).  The answer: log-partition, entropy, the most probable matchings,
    the probability of every edge, and the matching with the most edges
    expected to be right (Bayes).

    [bold]The file[/bold] has one line per row, cells separated by commas,
    semicolons, tabs or spaces.  An empty cell or -inf forbids an edge.  A
    first row and a first column of text are taken as labels; lines that start
    with # are skipped.  For pair probabilities p, use the score
    log(p / (1 - p)).

    [bold]Examples[/bold]

      permatch infer scores.csv
      permatch infer scores.npy --k 10 --samples 1000 --seed 1
      permatch infer scores.csv --json | python -m json.tool
      printf '2 0 1\n0 2 1\n1 1 0\n' | permatch infer -
    """
    with one_line_errors(debug):
        source = read_scores(file)
        from permatch.distribution import MatchingDistribution

        distribution = MatchingDistribution(source.scores, engine, n_jobs=jobs)
        summary = {"file": source.name} | summarise(distribution, source, k, samples, seed)
    if as_json:
        typer.echo(json.dumps(summary, allow_nan=False))
    else:
        with printing() as console:
            show(console, summary)


def summarise(
    distribution: "MatchingDistribution",
    source: ScoreFile,
    k: int,
    n_samples: int,
    seed: int,
) -> dict[str, Any]:
    """Collect the answers as plain lists and numbers, None where the engine has none."""
    marginals = entropy = bayes = None
    if distribution.engine.has_marginals:
        marginals = distribution.marginals.tolist()
        entropy = distribution.entropy
        bayes = _describe(distribution, distribution.bayes_matching())
    summary = {
        "file": source.name,
        "size": distribution.size,
        "n_forbidden": int((source.scores == -np.inf).sum()),
        "row_labels": source.row_labels,
        "column_labels": source.column_labels,
        "engine": distribution.diagnostics.engine,
        "reason": distribution.diagnostics.reason,
        "is_exact": distribution.is_exact,
        "log_partition": distribution.log_partition,
        "entropy": entropy,
        "mode": _describe(distribution, distribution.mode()),
        "bayes_matching": bayes,
        "k_best": [],
        "marginals": marginals,
    }
    if k > 0:
        best = distribution.k_best(k)
        summary["k_best"] = [
            _describe(distribution, matching) for matching in best.matchings
        ]
    if n_samples > 0:
        summary["seed"] = seed
        summary["samples"] = distribution.sample(n_samples, rng=seed).tolist()
    return summary


def _describe(distribution: "MatchingDistribution", matching: Any) -> dict[str, Any]:
    rows = np.arange(distribution.size)
    return {
        "matching": matching.tolist(),
        "score": float(distribution.scores[rows, matching].sum()),
        "probability": float(np.exp(distribution.log_prob(matching))),
    }


def show(console: Console, summary: dict[str, Any]) -> None:
    """Print a summary for people."""
    size, labels = summary["size"], (summary["row_labels"], summary["column_labels"])
    exact = "exact" if summary["is_exact"] else "approximate"
    facts = Table.grid(padding=(0, 2))
    facts.add_column(style="bold", no_wrap=True)
    facts.add_column(overflow="fold")
    forbidden = f", {summary['n_forbidden']} edges forbidden" * (summary["n_forbidden"] > 0)
    facts.add_row("graph", Text(f"{summary['file']}: {size} x {size}{forbidden}"))
    facts.add_row("engine", Text(f"{summary['engine']}, {exact} ({summary['reason']})"))
    facts.add_row("log-partition", f"{summary['log_partition']:.12g}")
    if summary["entropy"] is not None:
        entropy = summary["entropy"]
        facts.add_row(
            "entropy", f"{entropy:.6g} nats, as of {_many(entropy)} equal matchings"
        )
    facts.add_row("best matching", _in_words(summary["mode"], labels))
    if (bayes := summary["bayes_matching"]) is not None:
        facts.add_row("Bayes matching", _in_words(bayes, labels))
        right = sum(summary["marginals"][i][j] for i, j in enumerate(bayes["matching"]))
        facts.add_row("", f"{right:.2f} of its {size} edges are right on average")
    console.print(facts)
    if summary["k_best"]:
        console.print(f"\n[bold]{len(summary['k_best'])} most probable matchings[/bold]")
        console.print(_best_table(summary["k_best"], labels))
    if summary["marginals"] is not None and size > 0:
        whole = size <= MAX_GRID
        title = "probability of each edge, percent" if whole else "best edges of each row"
        console.print(f"\n[bold]{title}[/bold]")
        console.print(marginals_table(np.array(summary["marginals"]), *labels))
    if "samples" in summary:
        counts = Counter(map(tuple, summary["samples"])).most_common()
        more = f", the {MAX_DISTINCT} most frequent" * (len(counts) > MAX_DISTINCT)
        n_samples = len(summary["samples"])
        console.print(f"\n[bold]{n_samples} samples, {len(counts)} distinct{more}[/bold]")
        console.print(_samples_table(counts[:MAX_DISTINCT], labels))


def _many(entropy: float) -> str:
    return f"{np.exp(entropy):.1f}" if entropy < 10 else f"{np.exp(min(entropy, 700)):.2g}"


def _in_words(found: dict[str, Any], labels: tuple) -> Text:
    edges = join_edges(found["matching"], *labels)
    return Text(f"{edges}  (probability {percent(found['probability'])})")


def _best_table(best: list[dict[str, Any]], labels: tuple) -> Table:
    table = _plain_table()
    table.add_column("#", justify="right")
    table.add_column("probability", justify="right", no_wrap=True)
    table.add_column("score", justify="right", no_wrap=True)
    named = labels != (None, None)
    table.add_column("edges" if named else "columns of rows 0, 1, ...", overflow="fold")
    for rank, found in enumerate(best, start=1):
        edges = join_edges(found["matching"], *labels)
        table.add_row(
            str(rank), percent(found["probability"]), f"{found['score']:.6g}", Text(edges)
        )
    return table


def _samples_table(counts: list[tuple[tuple[int, ...], int]], labels: tuple) -> Table:
    table = _plain_table()
    table.add_column("drawn", justify="right", no_wrap=True)
    table.add_column("matching", overflow="fold")
    for matching, count in counts:
        table.add_row(str(count), Text(join_edges(list(matching), *labels)))
    return table


def marginals_table(
    marginals: np.ndarray, rows: list[str] | None, cols: list[str] | None
) -> Table:
    """Lay out edge probabilities: all of them, or each row's best if the graph is large."""
    size = len(marginals)
    rows = rows or [str(k) for k in range(size)]
    cols = cols or [str(k) for k in range(size)]
    if size > MAX_GRID:
        return _best_edges_table(marginals, rows, cols)
    table = _plain_table()
    table.add_column("", no_wrap=True)
    for col in cols:
        table.add_column(Text(col), justify="right", min_width=2)
    for row, chances in zip(rows, marginals, strict=True):
        table.add_row(Text(row), *map(_cell, chances))
    return table


def _best_edges_table(marginals: np.ndarray, rows: list[str], cols: list[str]) -> Table:
    table = _plain_table()
    table.add_column("", no_wrap=True)
    for _ in range(N_BEST_EDGES):
        table.add_column("")
    for row, chances in zip(rows, marginals, strict=True):
        order = np.argsort(-chances, kind="stable")[:N_BEST_EDGES]
        cells = [
            Text(f"{cols[col]}  {percent(chances[col])}", style=_style(chances[col]))
            for col in order
        ]
        table.add_row(Text(row), *cells)
    return table


def _cell(chance: float) -> Text:
    """Write a probability as a whole percentage, or a dot below half a percent."""
    if chance < 0.005:
        return Text(".", style="dim")
    return Text(f"{100 * chance:.0f}", style=_style(chance))


def _style(chance: float) -> str:
    return "bold green" if chance > 0.5 else "" if chance > 0.05 else "dim"


def _plain_table() -> Table:
    return Table(header_style="dim", box=None)
