"""The options that the commands of ``permatch match`` share."""

import csv
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import typer

from permatch.cli.shared.options import (
    Engine,
    Jobs,
    MaxIter,
    Penalty,
    argument,
    check_engine,
    estimator_option,
    flag,
    optional,
)

#: Largest seed that scikit-learn's folds take.
MAX_SEED = 2**32 - 1


Edges = Annotated[
    str,
    argument(
        "EDGES",
        "Table with one row per edge: .csv or .tsv, also .gz, or .parquet; - for stdin.",
    ),
]
Decoder = Annotated[
    Literal["mode", "bayes"],
    typer.Option(
        "--decode", help="Most probable matching, or fewest expected errors (bayes)."
    ),
]
NoProbabilities = Annotated[
    bool, flag("--no-probabilities", help="Skip probabilities, for very large graphs.")
]


def _column(name: str, text: str, **more: Any) -> Any:
    more = {"metavar": "NAME"} | more
    return typer.Option(name, help=text, rich_help_panel="Columns of the table", **more)


@dataclass(frozen=True)
class Columns:
    """The options for reading a table."""

    graph_column: Annotated[str, _column("--graph-column", "Id of the graph.")] = "graph"
    left_column: Annotated[str, _column("--left-column", "Id of left node.")] = "left"
    right_column: Annotated[str, _column("--right-column", "Id of right node.")] = "right"
    label_column: Annotated[
        str, _column("--label-column", "1 for matched edges, otherwise 0.")
    ] = "label"
    features: Annotated[
        str | None,
        _column(
            "--features",
            "Feature columns. Default: all other numeric columns.",
            metavar="A,B,...",
            show_default=False,
        ),
    ] = None
    missing: Annotated[
        Literal["error", "forbid"],
        _column(
            "--missing",
            "Whether an edge without a row is an error or forbidden.",
            metavar=None,
        ),
    ] = "error"

    def read_as(self, labels: str) -> dict[str, Any]:
        """Return the arguments of `read_edge_table`."""
        names = None
        if self.features is not None:  # a name with a comma in it can be quoted
            names = [name.strip() for name in next(csv.reader([self.features]), [])]
            if not names or not all(names):
                raise typer.BadParameter(
                    f"--features must be a list like a,b,c; got {self.features!r}."
                )
        return {
            "graph": self.graph_column,
            "left": self.left_column,
            "right": self.right_column,
            "label": self.label_column,
            "features": names,
            "missing": self.missing,
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
            help="Algorithm. Default: the one the model was fitted with.",
            callback=check_engine,
        ),
    ] = None
    jobs: Jobs = 1


@dataclass(frozen=True)
class Learner:
    """The options of a fit, without the strength of the penalty."""

    scoring: Annotated[
        Literal["hamming", "log-likelihood"],
        typer.Option("--scoring", help="Criterion of --cv."),
    ] = "log-likelihood"
    seed: Annotated[
        int, typer.Option("--seed", min=0, max=MAX_SEED, help="Seed of the folds.")
    ] = 0
    estimator: Annotated[str, estimator_option("match", help="The estimator.")] = "map"
    non_negative: Annotated[
        bool, flag("--non-negative", help="Constrain all coefficients to be >= 0.")
    ] = False
    non_positive: Annotated[
        bool, flag("--non-positive", help="Constrain them to be <= 0, as for distances.")
    ] = False
    max_iter: MaxIter = None
    engine: Engine = "auto"
    jobs: Jobs = 1

    def options(self, penalty: Penalty) -> dict[str, Any]:
        """Return the parameters of the estimator."""
        is_margin = self.estimator == "max-margin"
        is_bounded = self.non_negative or self.non_positive
        wrong = None
        if penalty.cv and penalty.alpha is not None:
            wrong = "--alpha and --cv exclude each other: --cv chooses alpha."
        elif penalty.alphas is not None and not penalty.cv:
            wrong = "--alphas needs --cv; add it, or use --alpha."
        elif is_margin and penalty.alpha == 0.0:
            wrong = "--alpha must be above 0 with --estimator max-margin."
        elif is_margin and (penalty.cv or is_bounded):
            wrong = "--cv, --non-negative and --non-positive need --estimator map."
        elif self.non_negative and self.non_positive:
            wrong = "--non-negative and --non-positive exclude each other; drop one."
        if wrong is not None:
            raise typer.BadParameter(wrong)
        options: dict[str, Any] = {"engine": self.engine, "n_jobs": self.jobs}
        options |= penalty.values()
        if self.max_iter is not None:
            options["max_iter"] = self.max_iter
        if is_bounded:
            options["bounds"] = "non-negative" if self.non_negative else "non-positive"
        if penalty.cv:
            options |= {"cv": penalty.n_folds, "random_state": self.seed}
            options["scoring"] = self.scoring.replace("-", "_")
        return options
