"""``python -m reproduce silhouettes``: the paper's Figure 3, left."""

from dataclasses import asdict, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from permatch.cli.shared.options import Debug, make_folder
from permatch.cli.shared.report import plural
from permatch.errors import InvalidOptionError
from reproduce.commands.steps import (
    Jobs,
    Out,
    Part,
    Quick,
    RepeatsUntilSettled,
    draw,
    finish,
    need,
    write_csv,
    write_json,
)

if TYPE_CHECKING:
    from reproduce.experiments.silhouette_sample_size import Config

_HEADINGS = {
    "unweighted": "unweighted",
    "map": "MAP",
    "max_margin": "max-margin",
    "map - max_margin": "difference",
}
_TREES = {"boosted": "boosted trees", "pairs": "trees grown pair by pair"}
_FIELDS = ["n", "method", "mean", "spread", "n_repeats", "seconds", "n_evaluations"]


def check_protocol(name: str) -> str:
    """Return the name of a protocol that there is."""
    from reproduce.experiments.silhouette_protocols import PROTOCOLS

    if name not in PROTOCOLS:
        raise typer.BadParameter(f"{name!r} is not one of {', '.join(PROTOCOLS)}.")
    return name


def silhouettes(
    quick: Quick = False,
    out: Out = Path("results"),
    jobs: Jobs = -1,
    repeats: RepeatsUntilSettled = None,
    protocol: Annotated[
        str,
        typer.Option(
            "--protocol",
            metavar="NAME",
            help="What is learned from: same-landmarks (as in the paper), new-landmarks or "
            "other-silhouette.",
            callback=check_protocol,
        ),
    ] = "same-landmarks",
    image: Annotated[
        Path | None,
        typer.Option(
            "--image",
            metavar="FILE",
            help="Image to use instead of the horse: an object on a plain background.",
        ),
    ] = None,
    others: Annotated[
        Path | None,
        typer.Option(
            "--others",
            metavar="DIR",
            exists=True,
            file_okay=False,
            help="Folder of images to learn from (--protocol other-silhouette), such as "
            "the other animals of a class. Default: dingbats.",
        ),
    ] = None,
    debug: Debug = False,
) -> None:
    r"""Learn to match points on sheared silhouettes (the paper's Figure 3, left).

    For each number of training pairs, MAP and max-margin learn from the same
    pairs, choose alpha on as many validation pairs, and are tested on 500 more.
    Unweighted features are the baseline.  In the first five repeats boosted trees
    learn from the most pairs too, by the likelihood of matchings and pair by pair.

    In the paper all pairs show the same landmarks, so a learner may know the
    points it is tested on.  Two more protocols learn from something else, and
    are tested on the same pairs: new-landmarks, on other points of the same
    outline; other-silhouette, on other outlines, drawn anew in every repeat.

    Writes the rows (silhouettes.jsonl, or silhouettes-new-landmarks.jsonl), the
    figure (.png, .svg), the summary (.csv) and the results as data, with intervals
    (.json).  You can stop at any time with Ctrl-C; the same command resumes, also
    with more repeats.

    [bold]Examples[/bold]

      python -m reproduce silhouettes --quick
      python -m reproduce silhouettes --protocol new-landmarks
      python -m reproduce silhouettes --image cat.png --others cats \
        --protocol other-silhouette --out cat
    """
    from reproduce.experiments.silhouette_sample_size import Config

    need("reproduce silhouettes", skimage="vision", matplotlib="plots")
    need("reproduce silhouettes", lightgbm="boosting")
    config = Config.quick() if quick else Config()
    if repeats is not None:
        config = replace(config, n_repeats=repeats)
    if image is not None:
        config = replace(config, image=str(image))
    if others is not None and protocol != "other-silhouette":
        raise InvalidOptionError(
            f"--others is for --protocol other-silhouette; got --protocol {protocol}. Add "
            "--protocol other-silhouette, or drop --others."
        )
    folder_of_others = None if others is None else str(others)
    config = replace(config, protocol=protocol, others=folder_of_others)
    finish(silhouettes_part(config, make_folder(out), quick, jobs))


def silhouettes_part(config: "Config", folder: Path, is_quick: bool, jobs: int) -> Part:
    """Return the experiment, with its files in a folder."""
    from permatch.plots import learning_curve
    from reproduce.experiments.silhouette_sample_size import run, summarise

    is_usual = config.protocol == type(config).protocol
    name = "silhouettes" if is_usual else f"silhouettes-{config.protocol}"
    stem = folder / (f"{name}-quick" if is_quick else name)

    def write(rows: list[dict[str, Any]], summary: list[dict[str, Any]]) -> None:
        write_csv(stem.with_suffix(".csv"), _FIELDS, summary)
        draw(stem, lambda axes: learning_curve(rows, axes))
        last = datetime.fromtimestamp(stem.with_suffix(".jsonl").stat().st_mtime, tz=UTC)
        day = last.date().isoformat()
        write_json(stem.with_suffix(".json"), as_data(config, rows, is_quick, day))

    return Part(
        title=name.replace("-", " "),
        config=config,
        stem=stem,
        start=lambda kept, show: run(config, kept, on_progress=show, n_jobs=jobs),
        summarise=summarise,
        write=write,
        report=lambda console, summary: _report(console, config, summary),
        has_json=True,
    )


def as_data(
    config: "Config", rows: list[dict[str, Any]], is_quick: bool, day: str
) -> dict[str, Any]:
    """Return the results as plain numbers and text, without where images were found."""
    from permatch._version import __version__
    from reproduce.experiments.silhouette_sample_size import judged, summarise

    options = asdict(config)
    for name in ("image", "others"):
        options[name] = options[name] and Path(options[name]).name
    return {
        "permatch": __version__,
        "is_quick": is_quick,
        "date": day,
        "config": options,
        "summary": summarise(rows),
        "effects": [effect.to_json() for effect in judged(config, rows)],
    }


def _report(console: Console, config: "Config", summary: list[dict[str, Any]]) -> None:
    """Print a line per number of training pairs and a column per method."""
    by_key = {(line["n"], line["method"]): line for line in summary}
    table = Table(box=None, header_style="bold", pad_edge=False, padding=(0, 2, 0, 0))
    for heading in ("pairs", *_HEADINGS.values(), "MAP fit"):
        table.add_column(heading, justify="right", no_wrap=True)
    for n in sorted({line["n"] for line in summary if line["n"] > 0}):
        cells = [
            _loss(
                by_key.get((0 if method == "unweighted" else n, method)),
                is_signed=" - " in method,
            )
            for method in _HEADINGS
        ]
        fit = by_key[n, "map"]
        cost = f"{fit['seconds']:.1f} s, {fit['n_evaluations']:.0f}"
        table.add_row(str(n), *cells, cost)
    console.print(table)
    n_repeats = max(line["n_repeats"] for line in summary)
    console.print(
        f"\nHamming loss on {plural(config.n_test, 'test pair')}, mean and standard "
        f"deviation over {plural(n_repeats, 'repeat')}, by number of training "
        f"pairs. Protocol: {config.protocol}. Difference: MAP minus max-margin, within "
        "repeats. MAP fit: time and evaluations at the chosen alpha.\n"
    )
    trees = [line for line in summary if line["method"] in _TREES]
    if trees:
        found = "; ".join(
            f"{_TREES[x['method']]} {_loss(x, is_signed=False)}" for x in trees
        )
        first = plural(trees[0]["n_repeats"], "repeat")
        console.print(
            f"With {plural(trees[0]['n'], 'pair')}, in the first {first}: {found}.\n"
        )


def _loss(line: dict[str, Any] | None, *, is_signed: bool) -> str:
    if line is None:
        return ""
    mean = f"{line['mean']:+.3f}" if is_signed else f"{line['mean']:.3f}"
    return mean if line["spread"] is None else f"{mean} +- {line['spread']:.3f}"
