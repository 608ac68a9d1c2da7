"""``permatch reproduce``: the paper's experiments, from data to figure."""

import csv
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from permatch.cli.options import check_jobs, make_folder
from permatch.cli.terminal import Command, Group, one_line_errors, plural, printing

if TYPE_CHECKING:
    from permatch.experiments.silhouette_sample_size import Config

app = typer.Typer(
    name="reproduce",
    cls=Group,
    help="Repeat the experiments of the paper.",
    no_args_is_help=True,
    rich_markup_mode="rich",
)

_FIGURES = ("png", "svg")
_HEADINGS = {
    "unweighted": "unweighted",
    "map": "MAP",
    "max_margin": "max-margin",
    "map - max_margin": "difference",
}


@app.callback()
def reproduce() -> None:
    """Repeat the experiments of the paper."""


@app.command(cls=Command)
def silhouettes(
    quick: Annotated[
        bool,
        typer.Option("--quick", metavar="", help="A smaller experiment, under a minute."),
    ] = False,
    out: Annotated[
        Path, typer.Option("--out", "-o", metavar="DIR", help="Folder for the results.")
    ] = Path("results"),
    jobs: Annotated[
        int,
        typer.Option(
            "--jobs",
            "-j",
            help="Threads, -1 for all processors; the losses are the same.",
            callback=check_jobs,
        ),
    ] = -1,
    repeats: Annotated[
        int | None,
        typer.Option(
            "--repeats",
            "-r",
            min=1,
            metavar="N",
            help="Repeats; 5 by default, 2 with --quick.",
        ),
    ] = None,
    image: Annotated[
        Path | None,
        typer.Option(
            "--image",
            metavar="FILE",
            help="Another silhouette than the horse: an object on a plain background.",
        ),
    ] = None,
    debug: Annotated[
        bool, typer.Option("--debug", metavar="", help="Show the traceback of a failure.")
    ] = False,
) -> None:
    """Learn to match points on sheared silhouettes (the paper's Figure 3, left).

    For each number of training pairs, MAP and max-margin learn from the same
    pairs, choose alpha on as many validation pairs, and are tested on 500 more;
    matching by unweighted features is what they start from.

    The folder gets the rows (silhouettes.jsonl), the figure (.png, .svg) and the
    summary (.csv).  Stop it at any time with Ctrl-C: the same command goes on
    where it was, also with more repeats.

    [bold]Examples[/bold]

      permatch reproduce silhouettes --quick
      permatch reproduce silhouettes --repeats 10 --out horse
      permatch reproduce silhouettes --image cat.png --out cat
    """
    from permatch._optional import require
    from permatch.experiments.silhouette_sample_size import Config, run, summarise

    with one_line_errors(debug):
        for module, extra in (("skimage", "vision"), ("matplotlib", "plots")):
            require(module, extra, what="permatch reproduce silhouettes")
        config = Config.quick() if quick else Config()
        if repeats is not None:
            config = replace(config, n_repeats=repeats)
        if image is not None:
            config = replace(config, image=str(image))
        folder = make_folder(out)
        stem = folder / ("silhouettes-quick" if quick else "silhouettes")
        kept = stem.with_suffix(".jsonl")
        rows: list[dict[str, Any]] = []
        try:
            with _progress("silhouettes") as show:
                rows.extend(run(config, kept, on_progress=show, n_jobs=jobs))
        except KeyboardInterrupt:
            _say_how_to_resume(kept)
            raise typer.Exit(130) from None
        summary = summarise(rows)
        _write_summary(stem.with_suffix(".csv"), summary)
        _draw(rows, stem)
        with printing() as console:
            _report(console, config, summary)
            endings = ", ".join(["jsonl", "csv", *_FIGURES])
            console.print(f"Written: {stem}.{{{endings}}}", soft_wrap=True)


@contextmanager
def _progress(title: str) -> Iterator[Callable[[float], None] | None]:
    """Yield a callback taking the share done; it draws on terminals only."""
    console = Console(stderr=True)
    if not console.is_terminal:
        yield None
        return
    from rich.progress import (
        BarColumn,
        Progress,
        TaskProgressColumn,
        TextColumn,
        TimeRemainingColumn,
    )

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TaskProgressColumn(),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task(title, total=1.0)
        yield lambda share: bar.update(task, completed=share)


def _say_how_to_resume(kept: Path) -> None:
    from permatch.experiments import read_rows

    n_rows = len(read_rows(kept)) if kept.exists() else 0
    typer.echo(
        f"interrupted; {n_rows} finished rows are in {kept}. Run the same command again to "
        "go on from there.",
        err=True,
    )


def _write_summary(path: Path, summary: list[dict[str, Any]]) -> None:
    fields = ["n", "method", "mean", "spread", "n_repeats", "seconds", "n_evaluations"]
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, fields, restval="")
        writer.writeheader()
        writer.writerows(summary)


def _draw(rows: list[dict[str, Any]], stem: Path) -> None:
    """Save the figure without touching the state of matplotlib's own windows."""
    from permatch._optional import require
    from permatch.plots import learning_curve

    figure = require("matplotlib.figure", "plots").Figure(
        figsize=(5.0, 3.6), layout="constrained"
    )
    learning_curve(rows, figure.subplots())
    for ending in _FIGURES:
        figure.savefig(stem.with_suffix(f".{ending}"), dpi=150)


def _report(console: Console, config: "Config", summary: list[dict[str, Any]]) -> None:
    """Print a line per number of training pairs and a column per method."""
    table = Table(box=None, header_style="bold", pad_edge=False, padding=(0, 2, 0, 0))
    for heading in ("pairs", *_HEADINGS.values(), "MAP fit"):
        table.add_column(heading, justify="right", no_wrap=True)
    by_key = {(line["n"], line["method"]): line for line in summary}
    for n in sorted({line["n"] for line in summary if line["n"] > 0}):
        cells = [
            _loss(
                by_key[0 if method == "unweighted" else n, method],
                is_signed=" - " in method,
            )
            for method in _HEADINGS
        ]
        fit = by_key[n, "map"]
        cost = f"{fit['seconds']:.1f} s, {fit['n_evaluations']:.0f}"
        table.add_row(str(n), *cells, cost)
    console.print(table)
    console.print(
        f"\nHamming loss on {plural(config.n_test, 'test pair')}, mean and standard "
        f"deviation over {plural(config.n_repeats, 'repeat')}, against the number of "
        "training pairs. Difference: MAP less max-margin, within repeats. MAP fit: time "
        "and evaluations with the alpha chosen.\n"
    )


def _loss(line: dict[str, Any], *, is_signed: bool) -> str:
    mean = f"{line['mean']:+.3f}" if is_signed else f"{line['mean']:.3f}"
    return mean if line["spread"] is None else f"{mean} +- {line['spread']:.3f}"
