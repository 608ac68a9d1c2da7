"""The options that the commands of ``permatch match`` share."""

import csv
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, Any

import typer

from permatch.cli.shared.options import (
    Jobs,
    argument,
    check_engine,
    flag,
    optional,
)


class Decode(StrEnum):
    """What ``--decode`` accepts."""

    MODE = "mode"
    BAYES = "bayes"


class Missing(StrEnum):
    """What ``--missing`` accepts."""

    ERROR = "error"
    FORBID = "forbid"


Edges = Annotated[
    str,
    argument(
        "EDGES",
        "Table with one row per edge: .csv, .tsv, also .gz, or .parquet; - is stdin.",
    ),
]
Decoder = Annotated[
    Decode,
    typer.Option("--decode", help="Most probable, or fewest errors expected (bayes)."),
]
NoProbabilities = Annotated[
    bool, flag("--no-probabilities", help="Do without them, for very large graphs.")
]


def _column(name: str, text: str, **more: Any) -> Any:
    more = {"metavar": "NAME"} | more
    return typer.Option(name, help=text, rich_help_panel="Columns of the table", **more)


@dataclass(frozen=True)
class Columns:
    """The options that say how a table is read."""

    graph_column: Annotated[str, _column("--graph-column", "Id of the graph.")] = "graph"
    left_column: Annotated[str, _column("--left-column", "Id of left node.")] = "left"
    right_column: Annotated[str, _column("--right-column", "Id of right node.")] = "right"
    label_column: Annotated[
        str, _column("--label-column", "1 for matched edges, else 0.")
    ] = "label"
    features: Annotated[
        str | None,
        _column(
            "--features",
            "Feature columns; by default all others that hold numbers.",
            metavar="A,B,...",
            show_default=False,
        ),
    ] = None
    missing: Annotated[
        Missing,
        _column(
            "--missing",
            "What an edge without a row is: a mistake, or forbidden.",
            metavar=None,
        ),
    ] = Missing.ERROR

    def read_as(self, labels: str) -> dict[str, Any]:
        """Return the arguments of `read_edge_table`."""
        names = None
        if self.features is not None:  # a name with a comma in it can be quoted
            names = [name.strip() for name in next(csv.reader([self.features]), [])]
            if not names or not all(names):
                raise typer.BadParameter(
                    f"--features {self.features!r} is no list such as a,b,c."
                )
        return {
            "graph": self.graph_column,
            "left": self.left_column,
            "right": self.right_column,
            "label": self.label_column,
            "features": names,
            "missing": self.missing.value,
            "labels": labels,
        }


@dataclass(frozen=True)
class Use:
    """The options of commands that use a model."""

    engine: Annotated[
        str | None,
        optional(
            "--engine",
            "-e",
            metavar="NAME",
            help="Algorithm, instead of the one the model was fitted with.",
            callback=check_engine,
        ),
    ] = None
    jobs: Jobs = 1
