"""``python -m reproduce alpha``: alpha by evidence against cross-validation."""

from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

from rich.console import Console
from rich.table import Table

from permatch.cli.shared.options import Debug, make_folder
from permatch.cli.shared.terminal import printing
from reproduce.commands.steps import (
    Out,
    data_option,
    need,
    progress,
    quick_option,
    resumable,
    write_json,
)


def alpha(
    data: Annotated[
        Path | None, data_option("that contains 'letor' and 'dblp_acm'")
    ] = None,
    quick: Annotated[bool, quick_option("Small silhouettes only, without data.")] = False,
    out: Out = Path("results"),
    debug: Debug = False,
) -> None:
    """Choose alpha by evidence and by cross-validation, and compare.

    On silhouettes of a horse, on whole lists of OHSUMED and on links between
    DBLP and ACM: which alpha each chooses, how good the model is on test data,
    and how many evaluations it takes.

    Writes the rows (alpha_choice.jsonl) and their means (.json).  You can stop
    at any time with Ctrl-C; the same command resumes.

    [bold]Examples[/bold]

      python -m reproduce alpha --quick
      python -m reproduce alpha --data ~/data --out results
    """
    from reproduce.experiments.alpha_choice import Config, as_data, run, summarise

    need("reproduce alpha", skimage="vision")
    config = Config.tiny() if quick else Config()
    config = replace(config, data=None if data is None else str(data))
    stem = make_folder(out) / ("alpha_choice-quick" if quick else "alpha_choice")
    kept = stem.with_suffix(".jsonl")
    with resumable(kept, [kept]):
        with progress("alpha") as show:
            rows = list(run(config, kept, on_progress=show))
        day = datetime.fromtimestamp(kept.stat().st_mtime, tz=UTC).date().isoformat()
        write_json(stem.with_suffix(".json"), as_data(config, rows, day))
        with printing() as console:
            _report(console, summarise(rows))
            console.print(f"Written: {stem}.{{jsonl, json}}", soft_wrap=True)


def _report(console: Console, summary: list[dict[str, Any]]) -> None:
    """Print a line per task and method."""
    table = Table(box=None, header_style="bold", pad_edge=False, padding=(0, 2, 0, 0))
    for heading in ("task", "alpha by"):
        table.add_column(heading, no_wrap=True)
    for heading in ("log-likelihood", "measure", "evaluations", "seconds"):
        table.add_column(heading, justify="right", no_wrap=True)
    for line in summary:
        table.add_row(
            line["task"],
            line["method"],
            f"{line['log_likelihood']['mean']:.4g}",
            f"{line['measured']} {line['measure']['mean']:.4f}",
            f"{line['n_evaluations']['mean']:.0f}",
            f"{line['seconds']['mean']:.1f}",
        )
    console.print(table)
