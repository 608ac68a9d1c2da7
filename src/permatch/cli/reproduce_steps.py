"""What the commands of ``permatch reproduce`` share: options, progress, files."""

import csv
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from permatch.cli.options import check_jobs

#: Endings of the figures.
FIGURES = ("png", "svg")

Show = Callable[[float], None] | None

Out = Annotated[
    Path, typer.Option("--out", "-o", metavar="DIR", help="Folder for the results.")
]
Jobs = Annotated[
    int,
    typer.Option(
        "--jobs",
        "-j",
        help="Threads, -1 for all processors; only the times depend on it.",
        callback=check_jobs,
    ),
]
Repeats = Annotated[
    int | None,
    typer.Option(
        "--repeats",
        "-r",
        min=1,
        metavar="N",
        help="Repeats; 5 by default, fewer with --quick.",
    ),
]
Debug = Annotated[
    bool, typer.Option("--debug", metavar="", help="Show the traceback of a failure.")
]


def need(what: str, **extras: str) -> None:
    """Make sure, before anything is computed, that optional packages are there."""
    from permatch._optional import require

    for module, extra in extras.items():
        require(module, extra, what=what)


def run_kept(
    title: str, kept: Path, run: Callable[[Path, Show], Iterable[dict[str, Any]]]
) -> list[dict[str, Any]]:
    """Return all rows; when interrupted, say how to go on, and leave."""
    rows: list[dict[str, Any]] = []
    try:
        with _progress(title) as show:
            rows.extend(run(kept, show))
    except KeyboardInterrupt:
        _say_how_to_resume(kept)
        raise typer.Exit(130) from None
    return rows


def write_csv(path: Path, fields: Sequence[str], lines: Iterable[dict[str, Any]]) -> None:
    """Write lines with these fields; None and what is missing are left empty."""
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, fields, restval="", extrasaction="ignore")
        writer.writeheader()
        writer.writerows(lines)


def draw(
    stem: Path,
    fill: Callable[[Any], Any],
    width: float = 5.0,
    height: float = 3.6,
) -> None:
    """Save a figure without touching the state of matplotlib's own windows."""
    from permatch._optional import require

    figure = require("matplotlib.figure", "plots").Figure(
        figsize=(width, height), layout="constrained"
    )
    fill(figure.subplots())
    for ending in FIGURES:
        figure.savefig(stem.with_suffix(f".{ending}"), dpi=150)


def say_written(console: Console, stem: Path, *endings: str) -> None:
    """Print what is in the folder now."""
    every = ", ".join([*endings, *FIGURES])
    console.print(f"Written: {stem}.{{{every}}}", soft_wrap=True)


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
