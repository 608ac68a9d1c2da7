"""The options that the commands of ``permatch link`` share."""

from dataclasses import dataclass
from typing import Annotated, Any

from permatch.cli.shared.options import Jobs, argument, optional

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


@dataclass(frozen=True)
class Linking:
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
    jobs: Jobs = 1
