"""``python -m reproduce silhouettes``: the paper's Figure 3, left."""

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from permatch.cli.shared.options import Debug, make_folder
from permatch.cli.shared.report import plural
from reproduce.commands.steps import (
    Jobs,
    Out,
    Part,
    Quick,
    Repeats,
    draw,
    finish,
    need,
    write_csv,
)

if TYPE_CHECKING:
    from reproduce.experiments.silhouette_sample_size import Config

_HEADINGS = {
    "unweighted": "unweighted",
    "map": "MAP",
    "max_margin": "max-margin",
    "map - max_margin": "difference",
}
_FIELDS = ["n", "method", "mean", "spread", "n_repeats", "seconds", "n_evaluations"]


def silhouettes(
    quick: Quick = False,
    out: Out = Path("results"),
    jobs: Jobs = -1,
    repeats: Repeats = None,
    image: Annotated[
        Path | None,
        typer.Option(
            "--image",
            metavar="FILE",
            help="Image to use instead of the horse: an object on a plain background.",
        ),
    ] = None,
    debug: Debug = False,
) -> None:
    """Learn to match points on sheared silhouettes (the paper's Figure 3, left).

    For each number of training pairs, MAP and max-margin learn from the same
    pairs, choose alpha on as many validation pairs, and are tested on 500 more.
    Unweighted features are the baseline.

    Writes the rows (silhouettes.jsonl), the figure (.png, .svg) and the summary
    (.csv).  You can stop at any time with Ctrl-C; the same command resumes,
    also with more repeats.

    [bold]Examples[/bold]

      python -m reproduce silhouettes --quick
      python -m reproduce silhouettes --repeats 10 --out horse
      python -m reproduce silhouettes --image cat.png --out cat
    """
    from reproduce.experiments.silhouette_sample_size import Config

    need("reproduce silhouettes", skimage="vision", matplotlib="plots")
    config = Config.quick() if quick else Config()
    if repeats is not None:
        config = replace(config, n_repeats=repeats)
    if image is not None:
        config = replace(config, image=str(image))
    finish(silhouettes_part(config, make_folder(out), quick, jobs))


def silhouettes_part(config: "Config", folder: Path, is_quick: bool, jobs: int) -> Part:
    """Return the experiment, with its files in a folder."""
    from permatch.plots import learning_curve
    from reproduce.experiments.silhouette_sample_size import run, summarise

    stem = folder / ("silhouettes-quick" if is_quick else "silhouettes")

    def write(rows: list[dict[str, Any]], summary: list[dict[str, Any]]) -> None:
        write_csv(stem.with_suffix(".csv"), _FIELDS, summary)
        draw(stem, lambda axes: learning_curve(rows, axes))

    return Part(
        title="silhouettes",
        config=config,
        stem=stem,
        start=lambda kept, show: run(config, kept, on_progress=show, n_jobs=jobs),
        summarise=summarise,
        write=write,
        report=lambda console, summary: _report(console, config, summary),
    )


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
        f"deviation over {plural(config.n_repeats, 'repeat')}, by number of training "
        "pairs. Difference: MAP minus max-margin, within repeats. MAP fit: time and "
        "evaluations at the chosen alpha.\n"
    )


def _loss(line: dict[str, Any], *, is_signed: bool) -> str:
    mean = f"{line['mean']:+.3f}" if is_signed else f"{line['mean']:.3f}"
    return mean if line["spread"] is None else f"{mean} +- {line['spread']:.3f}"
