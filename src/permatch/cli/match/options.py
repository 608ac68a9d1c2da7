"""The options that the commands of ``permatch match`` share."""

import csv
import math
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import typer

from permatch.cli.shared.options import (
    DECISION,
    Abstain,
    Costs,
    Engine,
    False_,
    Jobs,
    MaxIter,
    Missed,
    Penalty,
    Wrong,
    argument,
    check_engine,
    estimator_option,
    flag,
    optional,
    split_names,
)
from permatch.cli.shared.trees import TreeOptions, refuse_penalty

#: Largest seed that scikit-learn's folds take.
MAX_SEED = 2**32 - 1


Edges = Annotated[
    str,
    argument(
        "EDGES",
        "Table with one row per candidate pair: .csv or .tsv, also .gz, or .parquet; - for "
        "stdin.",
    ),
]
NoProbabilities = Annotated[
    bool, flag("--no-probabilities", help="Skip probabilities, for very large graphs.")
]


def check_budget(seconds: float | None) -> float | None:
    """Refuse a time that is none."""
    if seconds is not None and not seconds > 0.0:
        raise typer.BadParameter("must be a number of seconds above 0, or inf.")
    return seconds


def _column(name: str, text: str, **more: Any) -> Any:
    more = {"metavar": "NAME", "show_default": False} | more
    return typer.Option(name, help=text, rich_help_panel="Columns of the table", **more)


@dataclass(frozen=True)
class Columns:
    """The options for reading a table."""

    graph_column: Annotated[
        str | None,
        _column("--graph-column", "Id of the graph. Default: graph, if there is one."),
    ] = None
    left_column: Annotated[
        str | None, _column("--left-column", "Id of the left node. Default: left.")
    ] = None
    right_column: Annotated[
        str | None, _column("--right-column", "Id of the right node. Default: right.")
    ] = None
    label_column: Annotated[
        str | None,
        _column(
            "--label-column",
            "1 if the pair matches, 0 if not, empty if unknown. Default: label.",
        ),
    ] = None
    features: Annotated[
        str | None,
        _column(
            "--features",
            "Feature columns. Default: all other numeric columns.",
            metavar="A,B,...",
        ),
    ] = None

    def read_as(
        self, labels: str, learned: dict[str, str | None] | None = None
    ) -> dict[str, Any]:
        """Return the arguments of `read_edge_table`.

        `learned` are the columns that a model was fitted on, used where none is named.
        """
        names = None if self.features is None else split_names(self.features)
        known = {"graph": None, "left": "left", "right": "right", "label": "label"}
        known |= learned or {}
        given = {role: getattr(self, f"{role}_column") for role in known}
        return {
            **{role: given[role] or column for role, column in known.items()},
            "features": names,
            "labels": labels,
        }


@dataclass(frozen=True)
class Decision(Costs):
    """The options that turn probabilities into links."""

    decode: Annotated[
        Literal["mode", "bayes"],
        typer.Option(
            "--decode",
            help="Most probable matching, or least expected cost (bayes).",
            rich_help_panel=DECISION,
        ),
    ] = "mode"
    threshold: Annotated[
        float | None,
        optional(
            "--threshold",
            metavar="P",
            min=0.5,
            max=1.0,
            help="Link all pairs with at least this probability, instead of --decode.",
            rich_help_panel=DECISION,
        ),
    ] = None
    missed: Missed = None
    false: False_ = None
    wrong: Wrong = None
    abstain: Abstain = None

    @property
    def words(self) -> str:
        """What was decided by."""
        return self.decode if self.threshold is None else f"threshold {self.threshold:g}"

    def check(self, *, has_probabilities: bool) -> None:
        """Refuse costs that nothing depends on, and decisions without probabilities."""
        if self.threshold is not None and (self.decode == "bayes" or self.given):
            raise typer.BadParameter(
                "--threshold excludes --decode bayes and costs; drop one of them."
            )
        if self.threshold is not None and not has_probabilities:
            raise typer.BadParameter(
                "--threshold needs probabilities; drop --no-probabilities."
            )
        if self.given and self.decode != "bayes":
            option = f"--{next(iter(self.given))}"
            raise typer.BadParameter(f"{option} needs --decode bayes; add it.")
        if self.decode == "bayes" and not has_probabilities:
            raise typer.BadParameter(
                "--decode bayes needs probabilities; drop --no-probabilities."
            )


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


def read_prior(text: str) -> float | dict[str, float]:
    """Return a number, or numbers by the names of features."""
    try:
        return float(text)
    except ValueError:
        pass
    found = {}
    for item in next(csv.reader([text]), []):  # a name with a comma in it can be quoted
        name, _, number = item.rpartition("=")
        found[name.strip()] = float(number)
    return found


def check_prior(text: str | None) -> str | None:
    """Refuse what is neither a number nor numbers by name."""
    if text is not None:
        try:
            values = read_prior(text)
        except ValueError:
            values = {"": math.nan}
        numbers = values if isinstance(values, dict) else {"all": values}
        if not numbers or "" in numbers or not all(map(math.isfinite, numbers.values())):
            raise typer.BadParameter(
                f"must be a number, or a list like distance=-1,age=-0.5; got {text!r}."
            )
    return text


def forward_folds(n_folds: int) -> Any:
    """Return a splitter that always holds out later graphs than it trains on."""
    from sklearn.model_selection import TimeSeriesSplit

    return TimeSeriesSplit(n_folds)


@dataclass(frozen=True)
class Learner:
    """The options of a fit, without the strength of the penalty."""

    scoring: Annotated[
        Literal["hamming", "log-likelihood"] | None,
        optional(
            "--scoring",
            help="Criterion to choose alpha by, or leaves and trees. Default: "
            "log-likelihood; max-margin: hamming.",
        ),
    ] = None
    seed: Annotated[
        int, typer.Option("--seed", min=0, max=MAX_SEED, help="Seed of folds and trees.")
    ] = 0
    estimator: Annotated[str, estimator_option("match", help="The estimator.")] = "map"
    unmatched: Annotated[
        Literal["auto", "any", "larger"],
        typer.Option(
            "--unmatched",
            help="Nodes that may stay unmatched: any, those left over on the larger side, "
            "or what the labels show (auto).",
        ),
    ] = "auto"
    non_negative: Annotated[
        bool, flag("--non-negative", help="Constrain all coefficients to be >= 0.")
    ] = False
    non_positive: Annotated[
        bool, flag("--non-positive", help="Constrain them to be <= 0, as for distances.")
    ] = False
    prior_coef: Annotated[
        str | None,
        optional(
            "--prior-coef",
            metavar="NUMBER|A=NUMBER,...",
            help="Coefficients the penalty draws to: one number for all features, or some "
            "by name, 0 for the others. Default: 0.",
            callback=check_prior,
        ),
    ] = None
    in_order: Annotated[
        bool,
        flag(
            "--in-order",
            help="Graphs follow each other in time, as in the table: choose alpha, or "
            "test, on later graphs than those trained on.",
        ),
    ] = False
    max_iter: MaxIter = None
    engine: Engine = "auto"
    budget: Annotated[
        float | None,
        optional(
            "--budget",
            metavar="SECONDS",
            help="Time a fit with auto should take; what would take longer is "
            "approximated. inf: no limit. Default: 120.",
            callback=check_budget,
        ),
    ] = None
    jobs: Jobs = 1

    def options(self, penalty: Penalty, trees: TreeOptions) -> dict[str, Any]:
        """Return the parameters of the estimator."""
        if trees.is_trees:
            self._check_for_trees()
            refuse_penalty(penalty.alpha, penalty.alphas)
        tree_values = trees.values("match", self.estimator, is_search=penalty.cv)
        is_margin = self.estimator == "max-margin"
        is_bounded = self.non_negative or self.non_positive
        penalty.check_evidence(self.estimator, "map")
        wrong = None
        if penalty.cv and penalty.alpha is not None:
            wrong = "--alpha and --cv exclude each other: --cv chooses alpha."
        elif penalty.alphas is not None and not (penalty.cv or penalty.is_by_evidence):
            wrong = "--alphas needs --cv; add it, or use --alpha."
        elif is_margin and penalty.alpha == 0.0:
            wrong = "--alpha must be above 0 with --estimator max-margin."
        elif is_margin and self.budget is not None:
            wrong = "--budget needs --estimator map."
        elif is_margin and is_bounded:
            wrong = "--non-negative and --non-positive need --estimator map."
        elif self.non_negative and self.non_positive:
            wrong = "--non-negative and --non-positive exclude each other; drop one."
        if wrong is not None:
            raise typer.BadParameter(wrong)
        options: dict[str, Any] = {"engine": self.engine, "n_jobs": self.jobs}
        options["unmatched"] = self.unmatched
        options |= penalty.values() | tree_values
        if trees.is_trees:
            options["random_state"] = self.seed
        if self.max_iter is not None:
            options["max_iter"] = self.max_iter
        if self.prior_coef is not None:
            options["prior_coef"] = read_prior(self.prior_coef)
        if self.budget is not None:
            options["budget"] = None if math.isinf(self.budget) else self.budget
        if is_bounded:
            options["bounds"] = "non-negative" if self.non_negative else "non-positive"
        if penalty.cv:
            cv = forward_folds(penalty.n_folds) if self.in_order else penalty.n_folds
            options |= {"cv": cv, "random_state": self.seed}
            scoring = self.scoring or ("hamming" if is_margin else "log-likelihood")
            options["scoring"] = scoring.replace("-", "_")
        return options

    def _check_for_trees(self) -> None:
        """Refuse options that trees do not have."""
        given = {
            "--non-negative": self.non_negative,
            "--non-positive": self.non_positive,
            "--prior-coef": self.prior_coef is not None,
            "--max-iter": self.max_iter is not None,
        }
        for name, is_given in given.items():
            if is_given:
                raise typer.BadParameter(f"{name} has no effect with --model-kind trees.")
