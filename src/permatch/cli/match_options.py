"""The options that the commands of ``permatch match`` share."""

import csv
import math
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from permatch.cli.options import check_engine, check_jobs


class Estimator(StrEnum):
    """What ``--estimator`` accepts."""

    MAP = "map"
    MAX_MARGIN = "max-margin"


class Decode(StrEnum):
    """What ``--decode`` accepts."""

    MODE = "mode"
    BAYES = "bayes"


class Missing(StrEnum):
    """What ``--missing`` accepts."""

    ERROR = "error"
    FORBID = "forbid"


class Scoring(StrEnum):
    """What ``--scoring`` accepts."""

    HAMMING = "hamming"
    LOG_LIKELIHOOD = "log-likelihood"


def check_alpha(alpha: float | None) -> float | None:
    """Refuse a penalty that is none."""
    if alpha is not None and not 0.0 <= alpha < math.inf:
        raise typer.BadParameter("a penalty is a finite number of at least 0.")
    return alpha


#: Largest seed that scikit-learn's folds take.
MAX_SEED = 2**32 - 1

_EDGES_HELP = "Table with one row per edge: .csv, .tsv, also .gz, or .parquet; - is stdin."
_PANEL = "Columns of the table"

Edges = Annotated[
    str, typer.Argument(metavar="EDGES", help=_EDGES_HELP, show_default=False)
]
Model = Annotated[
    Path,
    typer.Argument(metavar="MODEL", help="Model file written by fit.", show_default=False),
]
Decoder = Annotated[
    Decode,
    typer.Option("--decode", help="Most probable, or fewest errors expected (bayes)."),
]
NoProbabilities = Annotated[
    bool,
    typer.Option(
        "--no-probabilities", metavar="", help="Do without them, for very large graphs."
    ),
]
Engine = Annotated[
    str,
    typer.Option(
        "--engine",
        "-e",
        metavar="NAME",
        help="Algorithm; `permatch engines` lists them.",
        callback=check_engine,
    ),
]
ModelEngine = Annotated[
    str | None,
    typer.Option(
        "--engine",
        "-e",
        metavar="NAME",
        help="Algorithm, instead of the one the model was fitted with.",
        callback=lambda name: None if name is None else check_engine(name),
    ),
]
Jobs = Annotated[
    int,
    typer.Option(
        "--jobs",
        "-j",
        help="Threads, -1 for all processors; the answer is the same.",
        callback=check_jobs,
    ),
]
GraphColumn = Annotated[
    str,
    typer.Option(
        "--graph-column", metavar="NAME", help="Id of the graph.", rich_help_panel=_PANEL
    ),
]
LeftColumn = Annotated[
    str,
    typer.Option(
        "--left-column", metavar="NAME", help="Id of left node.", rich_help_panel=_PANEL
    ),
]
RightColumn = Annotated[
    str,
    typer.Option(
        "--right-column", metavar="NAME", help="Id of right node.", rich_help_panel=_PANEL
    ),
]
LabelColumn = Annotated[
    str,
    typer.Option(
        "--label-column",
        metavar="NAME",
        help="1 for matched edges, else 0.",
        rich_help_panel=_PANEL,
    ),
]
Features = Annotated[
    str | None,
    typer.Option(
        "--features",
        metavar="A,B,...",
        help="Feature columns; by default all others that hold numbers.",
        show_default=False,
        rich_help_panel=_PANEL,
    ),
]
MissingEdges = Annotated[
    Missing,
    typer.Option(
        "--missing",
        help="What an edge without a row is: a mistake, or forbidden.",
        rich_help_panel=_PANEL,
    ),
]
AsJson = Annotated[
    bool, typer.Option("--json", metavar="", help="Print one JSON object and nothing else.")
]


def column_options(
    graph: str, left: str, right: str, label: str, features: str | None, missing: Missing
) -> dict[str, Any]:
    """Collect the options that say how a table is read."""
    names = None
    if features is not None:  # a name with a comma in it can be quoted
        names = [name.strip() for name in next(csv.reader([features]), [])]
        if not names or not all(names):
            raise typer.BadParameter(f"--features {features!r} is no list such as a,b,c.")
    return {
        "graph": graph,
        "left": left,
        "right": right,
        "label": label,
        "features": names,
        "missing": missing.value,
    }


def parse_alphas(text: str) -> list[float]:
    """Split ``1,0.1,0.01``."""
    try:
        alphas = [float(part) for part in text.split(",")]
    except ValueError:
        alphas = [math.nan]
    if not all(0.0 <= alpha < math.inf for alpha in alphas):
        raise typer.BadParameter(f"--alphas {text!r} is no list such as 1,0.1,0.01.")
    return alphas
