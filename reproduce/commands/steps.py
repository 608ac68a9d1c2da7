"""What the commands of ``python -m reproduce`` share: options, progress, files."""

import csv
import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from permatch._files import whole_file
from permatch.cli.shared.options import check_jobs
from permatch.cli.shared.terminal import printing

#: Endings of the figures.
FIGURES = ("png", "svg")

Show = Callable[[float], None]


def data_option(contents: str, **more: Any) -> Any:
    """Return the option ``--data``, for a folder with these contents."""
    return typer.Option(
        "--data",
        "-d",
        metavar="DIR",
        help=f"Folder {contents}. Default: the environment variable PERMATCH_DATA.",
        show_default=False,
        **more,
    )


def quick_option(what: str) -> Any:
    """Return the option ``--quick``."""
    return typer.Option("--quick", metavar="", help=what)


Out = Annotated[Path, typer.Option("--out", "-o", metavar="DIR", help="Output folder.")]
Jobs = Annotated[
    int,
    typer.Option(
        "--jobs",
        "-j",
        help="Number of threads; -1 for all. Does not change the results.",
        callback=check_jobs,
    ),
]
Quick = Annotated[bool, quick_option("A smaller experiment, under a minute.")]
Repeats = Annotated[
    int | None,
    typer.Option(
        "--repeats",
        "-r",
        min=1,
        metavar="N",
        help="Number of repeats. Default: 5; fewer with --quick.",
    ),
]
RepeatsUntilSettled = Annotated[
    int | None,
    typer.Option(
        "--repeats",
        "-r",
        min=1,
        metavar="N",
        help="Number of repeats. Default: 5 to 30, until the verdict is settled; fewer "
        "with --quick.",
    ),
]


def need(what: str, **extras: str) -> None:
    """Make sure, before anything is computed, that optional packages are there."""
    from permatch._optional import require

    for module, extra in extras.items():
        require(module, extra, what=what)


@dataclass(frozen=True)
class Part:
    """An experiment, configured: how to run it, and what to make of its rows.

    `start` reads the data and the rows that are kept, and returns an iterator that
    computes the others; `write` and `report` get what `summarise` returned.
    """

    title: str
    config: Any
    stem: Path
    start: Callable[[Path, Show], Iterable[dict[str, Any]]]
    summarise: Callable[[list[dict[str, Any]]], Any]
    write: Callable[[list[dict[str, Any]], Any], None]
    report: Callable[[Console, Any], None]
    has_page: bool = False
    has_json: bool = False

    @property
    def kept(self) -> Path:
        """The file of its rows."""
        return self.stem.with_suffix(".jsonl")


def finish(part: Part) -> None:
    """Do all of one experiment; when interrupted, say how to go on, and leave."""
    with resumable(part.kept, [part.kept]):
        with progress(part.title) as show:
            rows = list(part.start(part.kept, show))
        summary = part.summarise(rows)
        part.write(rows, summary)
        with printing() as console:
            part.report(console, summary)
            endings = ["html"] * part.has_page + ["json"] * part.has_json
            every = ", ".join(["jsonl", "csv", *endings, *FIGURES])
            console.print(f"Written: {part.stem}.{{{every}}}", soft_wrap=True)


def write_csv(path: Path, fields: Sequence[str], lines: Iterable[dict[str, Any]]) -> None:
    """Write lines with these fields; None and what is missing are left empty."""
    with whole_file(path) as file:
        writer = csv.DictWriter(file, fields, restval="", extrasaction="ignore")
        writer.writeheader()
        writer.writerows(lines)


def write_json(path: Path, content: dict[str, Any]) -> None:
    """Write results as data; numbers must be finite."""
    with whole_file(path) as file:
        json.dump(content, file, indent=1, allow_nan=False)
        file.write("\n")


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
        with whole_file(stem.with_suffix(f".{ending}")) as file:
            figure.savefig(file.buffer, format=ending, dpi=150)


@contextmanager
def progress(title: str) -> Iterator[Callable[..., None]]:
    """Yield a callback taking the share done and a title; it draws on terminals only."""
    console = Console(stderr=True)
    if not console.is_terminal:
        yield lambda share, name=title: None
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

        def show(share: float, name: str = title) -> None:
            bar.update(task, completed=share, description=name)

        yield show


@contextmanager
def resumable(where: Path, kept: Sequence[Path]) -> Iterator[None]:
    """When interrupted, say how many rows are in these files and how to go on; leave."""
    try:
        yield
    except KeyboardInterrupt:
        from reproduce.experiments import read_rows

        n_rows = sum(len(read_rows(path)) for path in kept if path.exists())
        typer.echo(
            f"interrupted; {n_rows} finished rows are in {where}. Run the same command "
            "again to resume.",
            err=True,
        )
        raise typer.Exit(130) from None
