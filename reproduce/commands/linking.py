"""``python -m reproduce linking``: links between DBLP and ACM."""

from dataclasses import asdict, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from rich.console import Console
from rich.table import Table

from permatch.cli.shared.options import Debug, make_folder
from reproduce.commands.steps import (
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
    from reproduce.experiments.dblp_acm import Config

_MEASURES = ("precision", "recall", "f1", "brier", "log_loss")


def linking(
    data: Annotated[
        Path | None,
        data_option(
            "with acm.csv, dblp.csv and gt.csv, or its parent if it is called 'dblp_acm'"
        ),
    ] = None,
    quick: Annotated[bool, quick_option("Two splits by entity only.")] = False,
    out: Out = Path("results"),
    debug: Debug = False,
) -> None:
    """Link the records of two bibliographies, DBLP and ACM.

    A logistic regression gives every candidate pair a probability.  Compared
    are its own threshold, greedy linking, assignment, splink's single best
    links, and permatch: pm.link on the same probabilities, without labels and
    with, and weights of the features learned by permatch.  The same is done with
    LightGBM in the place of the regression, next to trees that permatch grows by
    the likelihood of all links together.

    Records are split by entity (five times) and by venue: the harder split
    tests on a venue of which no pair was labelled.

    Writes the rows (linking.jsonl), a figure (.png, .svg), the table (.csv),
    the results as data (.json) and a page with all of them (.html).  You can
    stop at any time with Ctrl-C; the same command resumes.

    [bold]Examples[/bold]

      python -m reproduce linking --data ~/data --quick
      python -m reproduce linking --data ~/data/dblp_acm --out linking
    """
    from reproduce.experiments.bibliographies import find_folder
    from reproduce.experiments.dblp_acm import Config

    need("reproduce linking", matplotlib="plots", splink="reproduce", pandas="tables")
    need("reproduce linking", lightgbm="boosting")
    config = Config.quick() if quick else Config()
    config = replace(config, data=None if data is None else str(data))
    find_folder(config.data)  # no folder for results where there is nothing to do
    finish(linking_part(config, make_folder(out), quick))


def linking_part(config: "Config", folder: Path, is_quick: bool) -> Part:
    """Return the experiment, with its files in a folder."""
    from reproduce.experiments.dblp_acm import run, summarise
    from reproduce.pages.linking import linking_page
    from reproduce.plots.linking import reliability_curve

    stem = folder / ("linking-quick" if is_quick else "linking")

    def write(rows: list[dict[str, Any]], summary: list[dict[str, Any]]) -> None:
        fields = ["protocol", "method", *_MEASURES, "calibration_error"]
        write_csv(stem.with_suffix(".csv"), fields, map(_means, summary))
        draw(stem, lambda axes: reliability_curve(rows, "entities", axes), 5.0, 4.4)
        last = datetime.fromtimestamp(stem.with_suffix(".jsonl").stat().st_mtime, tz=UTC)
        day = last.date().isoformat()
        write_json(stem.with_suffix(".json"), _as_data(config, rows, is_quick, day))
        linking_page(config, rows).write(stem.with_suffix(".html"))

    return Part(
        title="linking",
        config=config,
        stem=stem,
        start=lambda kept, show: run(config, kept, on_progress=show),
        summarise=summarise,
        write=write,
        report=_report,
        has_page=True,
        has_json=True,
    )


def _as_data(
    config: "Config", rows: list[dict[str, Any]], is_quick: bool, day: str
) -> dict[str, Any]:
    """Return all results as plain numbers and text, without where the data was found."""
    from permatch._version import __version__
    from reproduce.experiments.dblp_acm import (
        certainty,
        effects,
        summarise,
        tree_effects,
    )

    options = asdict(config)
    options.pop("data")
    return {
        "permatch": __version__,
        "is_quick": is_quick,
        "date": day,
        "config": options,
        "summary": summarise(rows),
        "effects": {
            protocol: {
                name: effect.to_json() for name, effect in effects(rows, protocol).items()
            }
            for protocol in config.protocols
        },
        "trees": {
            protocol: {
                rival: {name: effect.to_json() for name, effect in found.items()}
                for rival, found in tree_effects(rows, protocol).items()
            }
            for protocol in config.protocols
        },
        "certainty": {name: certainty(rows, name) for name in config.protocols},
    }


def _means(line: dict[str, Any]) -> dict[str, Any]:
    return line | {name: line[name]["mean"] for name in _MEASURES if line[name]}


def _report(console: Console, summary: list[dict[str, Any]]) -> None:
    """Print a line per protocol and method."""
    table = Table(box=None, header_style="bold", pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column("split by")
    table.add_column("method", no_wrap=True)
    for heading in ("precision", "recall", "F1", "Brier", "log-loss"):
        table.add_column(heading, justify="right", no_wrap=True)
    for line in map(_means, summary):
        digits = (3, 3, 3, 5, 5)
        cells = (f"{line[m]:.{k}f}" for m, k in zip(_MEASURES, digits, strict=True))
        table.add_row(line["protocol"], line["method"], *cells)
    console.print(table)
    console.print(
        "\nMeans over splits. The page has their spreads, and what the methods are.\n"
    )
