"""``python -m reproduce positions``: lists whose top counts more, by validation."""

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
    progress,
    quick_option,
    resumable,
    write_json,
)


def positions(
    data: Annotated[Path | None, data_option("that contains 'letor'")] = None,
    quick: Annotated[
        bool, quick_option("A few small lists that are made up, without data.")
    ] = False,
    out: Out = Path("results"),
    debug: Debug = False,
) -> None:
    """Rank by whole lists whose top counts more, and compare.

    On the five folds of OHSUMED, and on short lists like those of MQ2008: levels by
    grade, by gain, and by the mean DCG weight of the positions of a grade.  Alpha,
    and in the end the levels too, are chosen on validation lists.

    Takes a few minutes.  Writes the rows (positions.jsonl) and their means and tests
    (.json).  You can stop at any time with Ctrl-C; the same command resumes.

    [bold]Examples[/bold]

      python -m reproduce positions --quick
      python -m reproduce positions --data ~/data --out results
    """
    from reproduce.experiments.position_choice import Config, as_data, run

    config = Config.tiny() if quick else Config()
    config = replace(config, data=None if data is None else str(data))
    stem = make_folder(out) / ("positions-quick" if quick else "positions")
    kept = stem.with_suffix(".jsonl")
    with resumable(kept, [kept]):
        with progress("positions") as show:
            rows = list(run(config, kept, on_progress=show))
        day = datetime.fromtimestamp(kept.stat().st_mtime, tz=UTC).date().isoformat()
        found = as_data(config, rows, day)
        write_json(stem.with_suffix(".json"), found)
        with printing() as console:
            _report(console, found)
            console.print(f"Written: {stem}.{{jsonl, json}}", soft_wrap=True)


def _report(console: Console, found: dict[str, Any]) -> None:
    """Print a line per task and method."""
    tests = {(test["task"], test["method"]): test for test in found["tests"]}
    table = Table(box=None, header_style="bold", pad_edge=False, padding=(0, 2, 0, 0))
    for heading in ("lists", "levels"):
        table.add_column(heading, no_wrap=True)
    headings = ("NDCG@1", "NDCG@10", "mean of @1 to @10", "grades ahead by", "p (Holm)")
    for heading in headings:
        table.add_column(heading, justify="right", no_wrap=True)
    for line in found["summary"]:
        cells = [f"{value:.4f}" for value in (line["ndcg"][0], line["ndcg"][-1])]
        cells.append(f"{line['mean']['mean']:.4f}")
        test = tests.get((line["task"], line["method"]))
        if test is not None:
            cells += [f"{test['difference']:+.4f}", f"{test['p_holm']:.3g}"]
        table.add_row(line["task"], line["method"], *cells)
    console.print(table)
