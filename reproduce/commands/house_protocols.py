"""``python -m reproduce house-protocols``: the House where test pairs share less."""

from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

from rich.console import Console
from rich.table import Table

from permatch.cli.shared.options import Debug, make_folder
from permatch.cli.shared.terminal import printing
from reproduce.commands.steps import (
    Jobs,
    Out,
    data_option,
    need,
    progress,
    quick_option,
    resumable,
    write_json,
)


def house_protocols(
    data: Annotated[
        Path | None,
        data_option(
            "with shape_contexts.npy and points.npy, or its parent if it is called "
            "'cmu_house'"
        ),
    ] = None,
    quick: Annotated[bool, quick_option("Smaller grids and two gaps.")] = False,
    out: Out = Path("results"),
    jobs: Jobs = -1,
    debug: Debug = False,
) -> None:
    """Match the landmarks of the CMU House as if learning knew less about them.

    In the experiment 'house', every test frame has neighbours that were learned
    from.  Here training, validation and test pairs also follow each other in
    time without a common frame (early-late; at gaps of 50 and 90 as blocks of
    pairs, left frames of the test before right frames learned from), are near
    each other in training and far apart in testing (near-far), or show other
    landmarks (new-landmarks).

    Compared are unweighted features, MAP and max-margin drawn to zero and to the
    unweighted score (prior_coef=-1), MAP without positive weights, and boosted
    trees.  What may go wrong is measured too: the loss at every alpha, features
    beyond the range of training, weights of the wrong sign.

    Takes about twenty minutes on one processor.  Writes the rows
    (house_protocols.jsonl) and their means and intervals (.json).  You can stop at
    any time with Ctrl-C; the same command resumes.

    [bold]Examples[/bold]

      python -m reproduce house-protocols --data ~/data --quick
      python -m reproduce house-protocols --data ~/data/cmu_house --out results
    """
    need("reproduce house-protocols", lightgbm="boosting")
    from reproduce.experiments.house_frames import find_folder
    from reproduce.experiments.house_protocols import Config, as_data, run

    config = Config.quick() if quick else Config()
    config = replace(config, data=None if data is None else str(data))
    find_folder(config.data)  # no folder for results where there is nothing to do
    name = "house_protocols-quick" if quick else "house_protocols"
    stem = make_folder(out) / name
    kept = stem.with_suffix(".jsonl")
    with resumable(kept, [kept]):
        with progress("house protocols") as show:
            rows = list(run(config, kept, on_progress=show, n_jobs=jobs))
        day = datetime.fromtimestamp(kept.stat().st_mtime, tz=UTC).date().isoformat()
        found = as_data(config, rows, day)
        write_json(stem.with_suffix(".json"), found)
        with printing() as console:
            _report(console, found["summary"])
            console.print(f"Written: {stem}.{{jsonl, json}}", soft_wrap=True)


def _report(console: Console, summary: list[dict[str, Any]]) -> None:
    """Print a line per protocol and gap, and a column per method."""
    from reproduce.experiments.house_protocols import CHOSEN, METHODS

    losses: dict[tuple[str, int], dict[str, float]] = {}
    for line in summary:
        own = losses.setdefault((line["protocol"], line["gap"]), {})
        own[line["method"]] = line["loss"]
    table = Table(box=None, header_style="bold", pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column("protocol", no_wrap=True)
    methods = (*METHODS, CHOSEN)
    for heading in ("gap", *(method.replace("_", " ") for method in methods)):
        table.add_column(heading, justify="right")
    for (protocol, gap), own in losses.items():
        cells = (f"{own[method]:.3f}" for method in methods)
        table.add_row(protocol, str(gap), *cells)
    console.print(table)
    console.print("\nHamming loss on test pairs. The file has intervals and reasons.\n")
