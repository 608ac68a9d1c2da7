"""``python -m reproduce tracking``: boxes linked across frames, and tracks."""

from dataclasses import asdict, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from rich.console import Console
from rich.table import Table

from permatch.cli.shared.options import Debug, make_folder
from reproduce.commands.steps import (
    Jobs,
    Out,
    Part,
    data_option,
    draw,
    finish,
    need,
    quick_option,
    write_csv,
    write_json,
)

if TYPE_CHECKING:
    from reproduce.experiments.tracking import Config

_METHODS = {"iou": "IoU + Hungarian", "logistic": "logistic", "permatch": "permatch"}
_COLUMNS = {
    "links": {"precision": 3, "recall": 3, "f1": 3, "brier": 4, "log_loss": 4},
    "tracks": {"idf1": 3, "mota": 3, "switches": 1, "misses": 1, "false_positives": 1},
}


def tracking(
    data: Annotated[
        Path | None,
        data_option(
            "with gt.txt of TUD-Campus, or its parent if it is called 'tud_campus'"
        ),
    ] = None,
    quick: Annotated[bool, quick_option("Fewer gaps and repeats, a minute.")] = False,
    out: Out = Path("results"),
    jobs: Jobs = -1,
    debug: Debug = False,
) -> None:
    """Link boxes of people across frames, and track them, on TUD-Campus.

    Boxes are dropped and jittered at random.  Learned scores of pairs, births
    and deaths are compared with IoU and Hungarian assignment, and with
    logistic regression and assignment, at gaps of 1, 5 and 10 frames: precision,
    recall, F1, Brier score and log-loss.  Thresholds of the others are tuned on
    training data.  Tracks are judged by py-motmetrics (IDF1, MOTA).

    Writes the rows (tracking.jsonl), a figure (.png, .svg), the table (.csv),
    the results as data (.json) and a page with all of them (.html).  You can
    stop at any time with Ctrl-C; the same command resumes.

    [bold]Examples[/bold]

      python -m reproduce tracking --data ~/data --quick
      python -m reproduce tracking --data ~/data/tud_campus --out tracking
    """
    from reproduce.experiments.tracking import Config
    from reproduce.experiments.tud_campus import find_folder

    need("reproduce tracking", matplotlib="plots", motmetrics="reproduce")
    config = Config.quick() if quick else Config()
    config = replace(config, data=None if data is None else str(data))
    find_folder(config.data)  # no folder for results where there is nothing to do
    finish(tracking_part(config, make_folder(out), quick, jobs))


def tracking_part(config: "Config", folder: Path, is_quick: bool, jobs: int) -> Part:
    """Return the experiment, with its files in a folder."""
    from reproduce.experiments.tracking import run
    from reproduce.experiments.tracking_summary import summarise
    from reproduce.experiments.tud_campus import load_campus
    from reproduce.pages.tracking import tracking_page
    from reproduce.plots.tracking import measure_by_gap

    campus = load_campus(config.data)
    stem = folder / ("tracking-quick" if is_quick else "tracking")

    def write(rows: list[dict[str, Any]], summary: list[dict[str, Any]]) -> None:
        _write_table(stem, summary)
        links = [line for line in summary if line["task"] == "links_time"]
        draw(stem, lambda axes: measure_by_gap(links, "brier", axes))
        last = datetime.fromtimestamp(stem.with_suffix(".jsonl").stat().st_mtime, tz=UTC)
        found = _as_data(config, rows, summary, is_quick, last.date().isoformat())
        write_json(stem.with_suffix(".json"), found)
        tracking_page(config, campus, rows).write(stem.with_suffix(".html"))

    return Part(
        title="tracking",
        config=config,
        stem=stem,
        start=lambda kept, show: run(config, kept, on_progress=show, n_jobs=jobs),
        summarise=summarise,
        write=write,
        report=_report,
        has_page=True,
        has_json=True,
    )


def _as_data(
    config: "Config",
    rows: list[dict[str, Any]],
    summary: list[dict[str, Any]],
    is_quick: bool,
    day: str,
) -> dict[str, Any]:
    """Return all results as plain numbers and text, without where the data was found."""
    from permatch._version import __version__
    from reproduce.experiments.tracking_summary import compare

    options = asdict(config)
    options.pop("data")
    return {
        "permatch": __version__,
        "is_quick": is_quick,
        "date": day,
        "seconds": round(sum(row["seconds"] for row in rows), 1),
        "config": options,
        "summary": summary,
        "leads": [key | effect.to_json() for key, effect in compare(rows)],
    }


def _write_table(stem: Path, summary: list[dict[str, Any]]) -> None:
    names = [name for columns in _COLUMNS.values() for name in columns]
    lines = [
        {"task": line["task"], "gap": line["gap"], "method": line["method"]}
        | {name: line[name]["mean"] for name in names if line[name]}
        | {f"{name}_spread": line[name]["spread"] for name in names if line[name]}
        for line in summary
    ]
    fields = ["task", "gap", "method", *names, *(f"{name}_spread" for name in names)]
    write_csv(stem.with_suffix(".csv"), fields, lines)


def _report(console: Console, summary: list[dict[str, Any]]) -> None:
    """Print a table for links and one for tracks."""
    from reproduce.pages.links import HEADINGS

    for kind, columns in _COLUMNS.items():
        table = Table(box=None, header_style="bold", pad_edge=False, padding=(0, 2, 0, 0))
        for heading in ("task", "gap", "method"):
            table.add_column(heading, no_wrap=True)
        for name in columns:
            table.add_column(HEADINGS[name][0], justify="right", no_wrap=True)
        for line in (line for line in summary if line["task"].startswith(kind)):
            cells = (f"{line[name]['mean']:.{digits}f}" for name, digits in columns.items())
            task = line["task"].replace("_", " by ")
            table.add_row(task, str(line["gap"]), _METHODS[line["method"]], *cells)
        console.print(table)
        console.print()
    console.print(
        "Means over repeats of an imitated detector; gap: frames between boxes that are "
        "linked, or between frames that are tracked. Lower is better for Brier and "
        "log-loss.\n"
    )
