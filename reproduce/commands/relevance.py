"""``python -m reproduce relevance``: probabilities of grades on queries never seen."""

from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Annotated, Any

from rich.console import Console
from rich.table import Table

from permatch.cli.shared.options import Debug, make_folder
from permatch.cli.shared.terminal import printing
from reproduce.commands.steps import (
    FIGURES,
    Out,
    data_option,
    draw,
    need,
    progress,
    quick_option,
    resumable,
    write_json,
)


def relevance(
    data: Annotated[Path | None, data_option("that contains 'letor'")] = None,
    quick: Annotated[
        bool, quick_option("A few small lists that are made up, without data.")
    ] = False,
    out: Out = Path("results"),
    debug: Debug = False,
) -> None:
    """Check the probabilities of grades on queries never seen.

    On the five folds of OHSUMED, and on short lists like those of MQ2008: what
    RankMatch.predict_relevance says of test documents, next to probabilities that
    give every query the training share of relevant documents.

    Takes a minute.  Writes the rows (relevance.jsonl), their means and reliability
    curves (.json), and a figure per kind of lists.  You can stop at any time with
    Ctrl-C; the same command resumes.

    [bold]Examples[/bold]

      python -m reproduce relevance --quick
      python -m reproduce relevance --data ~/data --out results
    """
    from reproduce.experiments.relevance import Config, as_data, run

    need("reproduce relevance", matplotlib="plots")
    config = Config.tiny() if quick else Config()
    config = replace(config, data=None if data is None else str(data))
    stem = make_folder(out) / ("relevance-quick" if quick else "relevance")
    kept = stem.with_suffix(".jsonl")
    with resumable(kept, [kept]):
        with progress("relevance") as show:
            rows = list(run(config, kept, on_progress=show))
        day = datetime.fromtimestamp(kept.stat().st_mtime, tz=UTC).date().isoformat()
        found = as_data(config, rows, day)
        write_json(stem.with_suffix(".json"), found)
        for task in config.tasks:
            own = stem.with_name(f"{stem.name}-{task}")
            draw(own, partial(_fill, lines=found["summary"], task=task), height=4.6)
        with printing() as console:
            _report(console, found)
            pictures = "{" + ",".join(config.tasks) + "}.{" + ", ".join(FIGURES) + "}"
            written = f"{stem}.{{jsonl, json}}, {stem}-{pictures}"
            console.print(f"Written: {written}", soft_wrap=True)


def _fill(axes: Any, lines: list[dict[str, Any]], task: str) -> None:
    from reproduce.plots.relevance import relevance_curves

    relevance_curves(lines, task, "relevant", axes)
    axes.legend(frameon=False, fontsize="small")


def _report(console: Console, found: dict[str, Any]) -> None:
    """Print a line per task, event and method."""
    from reproduce.experiments.relevance import FIGURES as NAMES

    table = Table(box=None, header_style="bold", pad_edge=False, padding=(0, 1, 0, 0))
    for heading in ("lists", "grade", "method"):
        table.add_column(heading, no_wrap=True)
    for heading in ("ECE", "Brier score", "log-loss", "pooled"):
        table.add_column(heading, justify="right", no_wrap=True)
    for line in found["summary"]:
        cells = []
        for name in NAMES:
            own = line[name]
            spread = "" if own["spread"] is None else f" ± {own['spread']:.3f}"
            cells.append(f"{own['mean']:.3f}{spread}")
        cells.append(f"{line['pooled_error']:.3f}")
        table.add_row(line["task"], line["event"], line["method"], *cells)
    console.print(table)
    console.print(
        "\nMeans and standard deviations over folds or sets of lists. ECE: expected "
        "calibration error; pooled: that over the documents of all of them.\n"
    )
