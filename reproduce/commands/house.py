"""``python -m reproduce house``: landmarks of the CMU House, frame by frame further on."""

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from permatch.cli.shared.options import Debug, make_folder
from permatch.cuda.driver import require_device
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
)

if TYPE_CHECKING:
    from reproduce.experiments.cmu_house import Config

_HEADINGS = {
    "unweighted": "unweighted",
    "map": "MAP, Bethe",
    "map_drawn": "MAP, sampled",
    "map_exact": "MAP, exact",
    "max_margin": "max-margin",
}


def _fields(methods: tuple[str, ...]) -> list[str]:
    """Return the columns of the table."""
    learners = methods[1:]
    return [
        "gap",
        "n_train",
        "n_test",
        *methods,
        *(f"{method}_error" for method in methods),
        *(f"{method}_alpha" for method in learners),
        *(f"{method}_seconds" for method in learners),
        "check_largest",
        "check_misplaced",
        "check_sampler_error",
        "check_n_pairs",
    ]


def house(
    data: Annotated[
        Path | None,
        data_option(
            "with shape_contexts.npy and points.npy, or its parent if it is called "
            "'cmu_house'"
        ),
    ] = None,
    quick: Annotated[bool, quick_option("Only gaps 50 and 90, and fewer alphas.")] = False,
    out: Out = Path("results"),
    jobs: Jobs = -1,
    device: Annotated[
        str,
        typer.Option(
            "--device",
            metavar="DEVICE",
            help="cpu, or cuda: on an NVIDIA GPU, MAP is also fitted with exact gradients.",
        ),
    ] = "cpu",
    debug: Debug = False,
) -> None:
    """Match the landmarks of the CMU House, frames 0 to 90 apart.

    Thirty landmarks on a rotating toy house: the further apart two frames are,
    the less similar are the shape contexts of a landmark.  MAP and max-margin
    learn one weight per bin from one third of the pairs, choose alpha on
    another third and are tested on the last.

    Graphs of 30 nodes are too large for exact gradients in every step, so MAP
    is fitted twice: with the Bethe approximation, which is smooth but may be
    wrong for single edges, and with sampled gradients of known error.  The
    page reports the error of the approximation.  On a GPU (--device cuda)
    MAP is fitted with exact gradients too.

    Writes the rows (house.jsonl), the figure (.png, .svg), the table (.csv)
    and a page with all results (.html).  You can stop at any time with
    Ctrl-C; the same command resumes.

    [bold]Examples[/bold]

      python -m reproduce house --data ~/data --quick
      python -m reproduce house --data ~/data/cmu_house --out house
    """
    from reproduce.experiments.cmu_house import Config
    from reproduce.experiments.house_frames import find_folder

    need("reproduce house", matplotlib="plots")
    config = Config.quick() if quick else Config()
    config = replace(config, data=None if data is None else str(data), device=device)
    if device == "cuda":
        require_device()
    find_folder(config.data)  # no folder for results where there is nothing to do
    finish(house_part(config, make_folder(out), quick, jobs))


def house_part(config: "Config", folder: Path, is_quick: bool, jobs: int) -> Part:
    """Return the experiment, with its files in a folder."""
    from reproduce.experiments.cmu_house import run, summarise
    from reproduce.experiments.house_frames import load_house
    from reproduce.pages.house import house_page
    from reproduce.plots.house import gap_curve

    frames = load_house(config.data)
    stem = folder / ("house-quick" if is_quick else "house")

    def write(rows: list[dict[str, Any]], summary: list[dict[str, Any]]) -> None:
        write_csv(stem.with_suffix(".csv"), _fields(config.methods), summary)
        draw(stem, lambda axes: gap_curve(summary, axes), width=6.0, height=4.0)
        house_page(config, frames, rows).write(stem.with_suffix(".html"))

    return Part(
        title="house",
        config=config,
        stem=stem,
        start=lambda kept, show: run(config, kept, on_progress=show, n_jobs=jobs),
        summarise=summarise,
        write=write,
        report=lambda console, summary: _report(
            console, frames.size, config.methods, summary
        ),
        has_page=True,
    )


def _report(
    console: Console, size: int, methods: tuple[str, ...], summary: list[dict[str, Any]]
) -> None:
    """Print a line per gap and a column per method."""
    table = Table(box=None, header_style="bold", pad_edge=False, padding=(0, 2, 0, 0))
    headings = [_HEADINGS[method] for method in methods]
    for heading in ("gap", *headings, "test pairs", "time"):
        table.add_column(heading, justify="right", no_wrap=True)
    for line in summary:
        seconds = sum(line[f"{method}_seconds"] for method in methods[1:])
        losses = (_with_error(line[method], line[f"{method}_error"]) for method in methods)
        table.add_row(str(line["gap"]), *losses, str(line["n_test"]), f"{seconds:.0f} s")
    console.print(table)
    note = (
        f"\nHamming loss on test pairs of {size} landmarks, +- standard error over pairs, "
        "by gap between the frames. Time: all methods and alphas."
    )
    checked = [line for line in summary if line.get("check_largest") is not None]
    if checked:
        worst = max(line["check_largest"] for line in checked)
        mean = sum(line["check_misplaced"] for line in checked) / len(checked)
        note += (
            " The likelihood is approximate. On some test pairs the Bethe marginals were "
            f"compared with sampled ones: the largest error of an edge was {worst:.2f}, "
            f"and on average {100 * mean:.1f} % of a landmark's probability was misplaced."
        )
    console.print(note + "\n")


def _with_error(loss: float, error: float | None) -> str:
    return f"{loss:.3f}" if error is None else f"{loss:.3f} +- {error:.3f}"
