"""The options that the commands of ``permatch link`` share."""

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from permatch.cli.shared.options import (
    Abstain,
    Costs,
    False_,
    Jobs,
    Missed,
    Wrong,
    argument,
    optional,
)

Table = Annotated[
    str,
    argument(
        "PAIRS",
        "Table with one row per candidate pair: .csv or .tsv, also .gz, or .parquet; - "
        "for stdin.",
    ),
]


def _column(name: str, text: str) -> Any:
    return optional(name, metavar="NAME", help=text, rich_help_panel="Columns of the table")


def _capacity(side: str) -> Any:
    return typer.Option(
        f"--capacity-{side}",
        metavar="N",
        min=1,
        help=f"Most links of a {side} record.",
        rich_help_panel="Probabilities",
    )


def _detail(*names: str, **more: Any) -> Any:
    return typer.Option(*names, rich_help_panel="Probabilities", **more)


def check_expected(text: str) -> str:
    """Refuse anything but ``pairs``, ``none`` or a number above 0."""
    if text not in ("pairs", "none"):
        try:
            number = float(text)
        except ValueError:
            number = math.nan
        if not 0.0 < number < math.inf:
            raise typer.BadParameter(
                f"must be pairs, none, or a number above 0; got {text!r}."
            )
    return text


@dataclass(frozen=True)
class Linking(Costs):
    """The options for linking the pairs of a table: arguments of `permatch.link`."""

    left: Annotated[str | None, _column("--left", "Ids of the left records.")] = None
    right: Annotated[str | None, _column("--right", "Ids of the right records.")] = None
    probability: Annotated[
        str | None, _column("--probability", "Probability of each pair, from 0 to 1.")
    ] = None
    weight: Annotated[
        str | None, _column("--weight", "Log2 of the odds, as splink's match_weight.")
    ] = None
    score: Annotated[str | None, _column("--score", "Natural logarithm of the odds.")] = (
        None
    )
    model: Annotated[
        Path | None,
        optional(
            "--model",
            "-m",
            metavar="MODEL",
            help="Score pairs by a model from permatch match fit, or fit_links in Python.",
            rich_help_panel="Columns of the table",
        ),
    ] = None
    expected_links: Annotated[
        str,
        _detail(
            "--expected-links",
            metavar="<pairs|none|N>",
            help="Number of links to expect: one constant is added to all log-odds. "
            "pairs: the sum of the pair probabilities; none: nothing is added.",
            callback=check_expected,
        ),
    ] = "pairs"
    capacity_left: Annotated[int, _capacity("left")] = 1
    capacity_right: Annotated[int, _capacity("right")] = 1
    tol: Annotated[
        float,
        _detail(
            "--tol", help="Width of intervals where exact probabilities take too long."
        ),
    ] = 0.01
    budget: Annotated[
        float, _detail("--budget", metavar="SECONDS", help="Most time for those.")
    ] = 5.0
    missed: Missed = None
    false: False_ = None
    wrong: Wrong = None
    abstain: Abstain = None
    jobs: Jobs = 1

    def number(self) -> Any:
        """Return ``--expected-links`` as `permatch.link` takes it."""
        if self.expected_links == "pairs":
            return "pairs"
        return None if self.expected_links == "none" else float(self.expected_links)
