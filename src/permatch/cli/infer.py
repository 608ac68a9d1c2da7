"""``permatch infer``: everything the distribution over matchings says about one graph."""

import json
import math
import warnings
from collections import Counter
from contextlib import suppress
from dataclasses import fields, replace
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from permatch.cli.accuracy import (
    accuracy_rows,
    describe_accuracy,
    log_partition_text,
    steps_table,
)
from permatch.cli.options import Debug, MaxBytes, check_engine, check_jobs
from permatch.cli.score_file import ScoreFile, read_scores
from permatch.cli.terminal import (
    join_edges,
    join_pairs,
    percent,
    percent_of_log,
    plural,
    printing,
)
from permatch.errors import InvalidMatchingError, InvalidOptionError, SizeLimitError

if TYPE_CHECKING:
    from permatch.distribution import MatchingDistribution
    from permatch.inference import AbstractEngine

#: Largest graph whose marginals are printed whole; beyond it, the best edges of each row.
MAX_GRID = 12
N_BEST_EDGES = 3
#: Distinct samples printed; the JSON has them all.
MAX_DISTINCT = 10


def _check_given(edges: list[str] | None) -> list[str]:
    for edge in edges or []:
        if ":" not in edge:
            raise typer.BadParameter(
                f"an edge is written ROW:COL, such as 0:2; got {edge!r}."
            )
    return edges or []


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
            callback=check_engine,
        ),
    ] = "auto",
    k: Annotated[
        int, typer.Option("--k", "-k", min=0, help="Most probable matchings to list.")
    ] = 5,
    samples: Annotated[
        int,
        typer.Option(
            "--samples",
            "-n",
            min=0,
            help="Random matchings to draw, exact ones: beyond 24 rows each may take "
            "from milliseconds to seconds.",
        ),
    ] = 0,
    seed: Annotated[
        int,
        typer.Option(
            "--seed", min=0, help="Seed of the samples, and of engines that draw."
        ),
    ] = 0,
    tol: Annotated[
        float | None,
        typer.Option(
            "--tol",
            metavar="X",
            help="Error the engine is to keep to; for auto, of the edges' probabilities.",
            show_default=False,
        ),
    ] = None,
    budget: Annotated[
        float | None,
        typer.Option(
            "--budget",
            metavar="SECONDS",
            help="Time for graphs too large to be solved exactly.",
            show_default=False,
        ),
    ] = None,
    jobs: Annotated[
        int,
        typer.Option(
            "--jobs",
            "-j",
            help="Threads, -1 for all processors; the answer is the same.",
            callback=check_jobs,
        ),
    ] = 1,
    given: Annotated[
        list[str] | None,
        typer.Option(
            "--given",
            metavar="ROW:COL",
            help="Edge known to be matched, by labels or by numbers from 0; repeatable.",
            callback=_check_given,
            show_default=False,
        ),
    ] = None,
    max_size: Annotated[
        int | None,
        typer.Option(
            "--max-size",
            metavar="N",
            min=0,
            help="Largest graph the engine accepts.",
            show_default=False,
        ),
    ] = None,
    as_json: Annotated[
        bool,
        typer.Option("--json", metavar="", help="Print one JSON object and nothing else."),
    ] = False,
    max_bytes: MaxBytes = None,
    debug: Debug = False,
) -> None:
    r"""Print the distribution over the perfect matchings of one graph.

    A matching's probability is proportional to exp(sum of the scores of its
    edges).  The answer: log-partition, entropy, the most probable matchings,
    the probability of every edge, and the matching with the most edges
    expected to be right (Bayes).  Up to 30 rows it is exact; beyond, it is
    found to within --tol, in --budget seconds, and its errors are told.

    [bold]The file[/bold] has one line per row, cells separated by commas,
    semicolons, tabs or spaces.  An empty cell or -inf forbids an edge.  A
    first row and a first column of text are taken as labels; lines that start
    with # are skipped.  For pair probabilities p, use the score
    log(p / (1 - p)).

    [bold]Examples[/bold]

      permatch infer scores.csv
      permatch infer scores.npy --k 10 --samples 1000 --seed 1
      permatch infer large.csv --tol 0.005 --budget 60
      permatch infer scores.csv --given ann:x --given 1:0
      permatch infer scores.csv --json | python -m json.tool
      printf '2 0 1\n0 2 1\n1 1 0\n' | permatch infer -
    """
    from permatch.distribution import MatchingDistribution
    from permatch.inference import find_engine

    chosen = _with_options(find_engine(engine), max_size=max_size, tol=tol, budget=budget)
    if any(option.name == "random_state" for option in fields(chosen)):
        chosen = replace(chosen, **{"random_state": seed})
    source = read_scores(file)
    edges = _find_given(source, given or [])
    distribution = MatchingDistribution(source.scores, chosen, given=edges, n_jobs=jobs)
    n_open = distribution.size - len(edges)
    _check_size(chosen, n_open)
    with warnings.catch_warnings():  # what engines warn of, the summary tells
        warnings.simplefilter("ignore", RuntimeWarning)
        summary = summarise(distribution, source, k, samples, seed)
    if as_json:
        typer.echo(json.dumps(summary, allow_nan=False))
    else:
        with printing() as console:
            show(console, summary)


def _with_options(engine: "AbstractEngine", **options: float | None) -> "AbstractEngine":
    """Return an engine with the options given, refusing those it does not have."""
    known = {option.name for option in fields(engine)}
    chosen = {name: value for name, value in options.items() if value is not None}
    for name in chosen:
        if name not in known:
            option = f"--{name.replace('_', '-')}"
            raise typer.BadParameter(
                f"{option} is for engines that have such an option; {engine.name!r} has "
                f"{', '.join(sorted(known))}. Leave it out, or choose another --engine."
            )
    try:
        return replace(engine, **chosen)
    except InvalidOptionError as err:
        raise typer.BadParameter(str(err)) from err


def _find_given(source: ScoreFile, edges: list[str]) -> dict[int, int]:
    """Return the known edges, row to column."""
    found: dict[int, int] = {}
    for edge in edges:
        row, col = source.find_edge(edge)
        if found.setdefault(row, col) != col:
            raise InvalidMatchingError(
                f"given edges must match each row at most once; got {edge!r} and another "
                f"edge of row {row}. Drop one of them."
            )
    return found


def _check_size(engine: "AbstractEngine", size: int) -> None:
    """Raise SizeLimitError, naming the options that help, if a graph is too large."""
    try:
        engine.check_size(size)
    except SizeLimitError as err:
        options = "--given ROW:COL"
        with suppress(InvalidOptionError):  # where the limit cannot be raised so far
            replace(engine, max_size=size)
            options += f" or --max-size {size}"
        raise SizeLimitError(f"{err} On the command line: {options}.") from err


def summarise(
    distribution: "MatchingDistribution",
    source: ScoreFile,
    k: int,
    n_samples: int,
    seed: int,
) -> dict[str, Any]:
    """Collect the answers as plain lists and numbers, None where the engine has none."""
    # Samples first: that there are none should not be learnt after minutes of inference.
    drawn = distribution.sample(n_samples, rng=seed).tolist() if n_samples > 0 else None
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
        "given": sorted(distribution.given.items()),
        "engine": distribution.diagnostics.engine,
        "reason": distribution.diagnostics.reason,
        "is_exact": distribution.is_exact,
        **describe_accuracy(distribution),
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
    if drawn is not None:
        summary["seed"] = seed
        summary["samples"] = drawn
    return summary


def _describe(distribution: "MatchingDistribution", matching: Any) -> dict[str, Any]:
    rows = np.arange(distribution.size)
    log_probability = distribution.log_prob(matching)
    return {
        "matching": matching.tolist(),
        "score": float(distribution.scores[rows, matching].sum()),
        "log_probability": log_probability,
        "probability": math.exp(log_probability),
    }


def show(console: Console, summary: dict[str, Any]) -> None:
    """Print a summary for people."""
    size, labels = summary["size"], (summary["row_labels"], summary["column_labels"])
    exact = "exact" if summary["is_exact"] else "approximate"
    if exact == "approximate" and summary["certificate"] == "rigorous":
        exact = "with a certified error"
    facts = Table.grid(padding=(0, 2))
    facts.add_column(style="bold", no_wrap=True)
    facts.add_column(overflow="fold")
    n_forbidden = summary["n_forbidden"]
    forbidden = f", {plural(n_forbidden, 'edge')} forbidden" * (n_forbidden > 0)
    facts.add_row("graph", Text(f"{summary['file']}: {size} x {size}{forbidden}"))
    if summary["given"]:
        facts.add_row("given", Text(join_pairs(summary["given"], *labels)))
    facts.add_row("engine", Text(f"{summary['engine']}, {exact} ({summary['reason']})"))
    facts.add_row("log-partition", log_partition_text(summary))
    for label, text in accuracy_rows(summary):
        facts.add_row(label, text)
    if summary["entropy"] is not None:
        entropy = summary["entropy"]
        facts.add_row(
            "entropy", f"{entropy:.6g} nats, as of {_many(entropy)} equal matchings"
        )
    facts.add_row("best matching", _in_words(summary["mode"], labels))
    if (bayes := summary["bayes_matching"]) is not None:
        facts.add_row("Bayes matching", _in_words(bayes, labels))
        right = sum(summary["marginals"][i][j] for i, j in enumerate(bayes["matching"]))
        facts.add_row("", f"right on average: {right:.2f} of {plural(size, 'edge')}")
    console.print(facts)
    if summary["steps"]:
        console.print("\n[bold]engines tried[/bold]")
        console.print(steps_table(summary["steps"]))
    if summary["k_best"]:
        found = plural(len(summary["k_best"]), "most probable matching")
        console.print(f"\n[bold]{found}[/bold]")
        console.print(_best_table(summary["k_best"], labels))
    if summary["marginals"] is not None and size > 0:
        whole = size <= MAX_GRID
        title = "probability of each edge, percent" if whole else "best edges of each row"
        console.print(f"\n[bold]{title}[/bold]")
        console.print(marginals_table(np.array(summary["marginals"]), *labels))
    if "samples" in summary:
        counts = Counter(map(tuple, summary["samples"])).most_common()
        more = f", the {MAX_DISTINCT} most frequent" * (len(counts) > MAX_DISTINCT)
        drawn = plural(len(summary["samples"]), "sample")
        console.print(f"\n[bold]{drawn}, {len(counts)} distinct{more}[/bold]")
        console.print(_samples_table(counts[:MAX_DISTINCT], labels))


def _many(entropy: float) -> str:
    return f"{np.exp(entropy):.1f}" if entropy < 10 else f"{np.exp(min(entropy, 700)):.2g}"


def _in_words(found: dict[str, Any], labels: tuple) -> Text:
    edges = join_edges(found["matching"], *labels)
    return Text(f"{edges}  (probability {percent_of_log(found['log_probability'])})")


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
            str(rank),
            percent_of_log(found["log_probability"]),
            f"{found['score']:.6g}",
            Text(edges),
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
