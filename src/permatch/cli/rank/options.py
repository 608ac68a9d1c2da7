"""The options that the commands of ``permatch rank`` share."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from permatch.cli.shared.options import (
    Jobs,
    argument,
    estimator_option,
    optional,
    split_names,
)
from permatch.errors import InvalidOptionError

if TYPE_CHECKING:
    from permatch.datasets.judged_tables import JudgedColumns


def check_subset_size(text: str | None) -> str | None:
    """Refuse an unknown subset size."""
    if text in (None, "all", "grades", "pairs"):
        return text
    is_number = len(text) < 10 and text.isdecimal() and text.isascii()
    if not (is_number and int(text) >= 2):
        raise typer.BadParameter(
            f"must be all, grades, pairs or a number of at least 2; got {text!r}."
        )
    return text


def check_n_subsets(number: float) -> float:
    """Refuse a number that draws nothing."""
    if not 0.0 < number < float("inf"):
        raise typer.BadParameter("must be a finite number above 0.")
    return number


def check_position_weights(text: str | None) -> Any:
    """Return the name or the numbers of a text; refuse any other."""
    if text in (None, "dcg"):
        return text
    try:
        return [float(number) for number in text.split(",")]
    except ValueError as err:
        raise typer.BadParameter(
            f"must be dcg, or numbers with commas between them; got {text!r}."
        ) from err


def check_names(text: str | None) -> str | None:
    """Refuse what are no names of columns."""
    if text is not None:
        split_names(text)
    return text


def check_metrics(texts: list[str] | None) -> list[str]:
    """Refuse unknown measures."""
    if not texts:
        return []
    from permatch.metrics import find_measures

    try:
        return [str(measure) for text in texts for measure in find_measures(text)]
    except InvalidOptionError as err:
        raise typer.BadParameter(str(err)) from err


Judged = Annotated[
    str,
    argument(
        "FILE",
        "Judged documents: LETOR (SVMlight) text, CSV or Parquet; also .gz; - for stdin.",
    ),
]
Metrics = Annotated[
    list[str] | None,
    optional(
        "--metric",
        metavar="NAME[@K,...]",
        help='Measures, such as NDCG@1,5,10 or "NDCG(discount=letor)@10"; '
        "repeatable. See permatch rank evaluate --help.",
        callback=check_metrics,
    ),
]
FeatureNames = Annotated[
    Path | None,
    optional(
        "--feature-names", metavar="FILE", help="Names of the features, one per line."
    ),
]


def _column(name: str, text: str, **more: Any) -> Any:
    more = {"metavar": "COLUMN", "rich_help_panel": "How the file is read"} | more
    return optional(name, help=text, **more)


@dataclass(frozen=True)
class Columns:
    """How judged files are read: the columns of tables, the numbering of LETOR text."""

    grade: Annotated[
        str | None, _column("--grade", "Grades, in tables. Default: grade.")
    ] = None
    qid: Annotated[str | None, _column("--qid", "Query ids, in tables. Default: qid.")] = (
        None
    )
    document: Annotated[
        str | None, _column("--document", "Names of documents, in tables.")
    ] = None
    features: Annotated[
        str | None,
        _column(
            "--features",
            "Features, in tables. Default: those of the model by name; for a fit, and if "
            "they have no names, all other columns of numbers. A model that knows its "
            "features by name takes these of them, others take them in this order.",
            metavar="A,B,...",
            callback=check_names,
        ),
    ] = None
    zero_based: Annotated[
        bool,
        _column(
            "--zero-based",
            "LETOR text with features numbered from 0, as scikit-learn writes it.",
            metavar="",
        ),
    ] = False

    @property
    def names(self) -> list[str] | None:
        """The features by name, None if they are not given."""
        return None if self.features is None else split_names(self.features)

    def judged(
        self, features: Sequence[str] | None = None, *, has_grades: bool = True
    ) -> "JudgedColumns":
        """Return the columns of a table, with these features unless some are named."""
        from permatch.datasets.judged_tables import JudgedColumns

        return JudgedColumns(
            self.grade or "grade",
            self.qid or "qid",
            self.document,
            self.names or features,
            ("grade", "qid") if has_grades else ("qid",),
        )

    def check(self, name: Any, *, is_table: bool, n_features: int | None = None) -> None:
        """Refuse what has no effect on a file."""
        of_tables = {
            "--grade": self.grade,
            "--qid": self.qid,
            "--document": self.document,
            "--features": self.features,
        }
        of_text = {"--zero-based": self.zero_based or None, "--n-features": n_features}
        for option, value in (of_text if is_table else of_tables).items():
            if value is not None:
                why = (
                    "a table, whose columns are the features: --features names them"
                    if is_table
                    else "LETOR text, which has no columns"
                )
                raise typer.BadParameter(
                    f"{option} has no effect on {name}, {why}. Drop it."
                )


_MODEL_PANEL = "Model"


def _model_option(*names: str, **more: Any) -> Any:
    return typer.Option(*names, rich_help_panel=_MODEL_PANEL, **more)


@dataclass(frozen=True)
class Learner:
    """The options of a fit, without the strength of the penalty."""

    estimator: Annotated[
        str,
        estimator_option(
            "rank",
            help="Maximum likelihood, maximum margin with an NDCG loss (dorm), or ridge "
            "regression of grades.",
            rich_help_panel=_MODEL_PANEL,
        ),
    ] = "rankmatch"
    subset_size: Annotated[
        str | None,
        _model_option(
            "--subset-size",
            "-M",
            metavar="all|grades|pairs|N",
            help="An observation: the whole list, a random subset with one document of "
            "each grade or of N documents, or a pair. Default: all; dorm: grades.",
            callback=check_subset_size,
            show_default=False,
        ),
    ] = None
    n_subsets: Annotated[
        float,
        _model_option(
            "--n-subsets",
            help="Random subsets per query, as a multiple of documents x N.",
            callback=check_n_subsets,
        ),
    ] = 0.4
    position_weights: Annotated[
        str | None,
        _model_option(
            "--position-weights",
            metavar="dcg|C,C,...",
            help="Weights of positions, best first: 1 / log2(1 + position), or numbers. "
            "Default: of whole lists, the grades; of subsets of N, N - 1 to 0.",
            callback=check_position_weights,
            show_default=False,
        ),
    ] = None
    form: Annotated[
        Literal["auto", "exact", "profile"],
        _model_option(
            "--form",
            help="Likelihood of whole lists: exact, or a convex bound for long ones.",
        ),
    ] = "auto"
    query_weight: Annotated[
        Literal["observations", "queries", "per-document", "per-relevant"] | None,
        _model_option(
            "--query-weight",
            help="Weight of a query. Default: observations.",
            show_default=False,
        ),
    ] = None
    scaling: Annotated[
        Literal["none", "minmax", "standard"],
        _model_option(
            "--scaling",
            help="Scaling of features within each query; such a model cannot be exported.",
        ),
    ] = "none"
    max_iter: Annotated[
        int | None,
        _model_option("--max-iter", min=1, help="Most steps.", show_default=False),
    ] = None
    seed: Annotated[
        int, typer.Option("--seed", min=0, help="Seed of subsets and folds.")
    ] = 0
    jobs: Jobs = 1

    def options(self) -> dict[str, Any]:
        """Return the parameters of the estimator."""
        size, form = self.subset_size, self.form
        options: dict[str, Any] = {
            "n_subsets": self.n_subsets,
            "scaling": None if self.scaling == "none" else self.scaling,
            "random_state": self.seed,
            "n_jobs": self.jobs,
        }
        if size is not None:
            options["subset_size"] = int(size) if size.isdecimal() else size
        if self.position_weights is not None:
            options["position_weights"] = self.position_weights
        if self.max_iter is not None:
            options["max_iter"] = self.max_iter
        if self.query_weight is not None:
            options["query_weight"] = self.query_weight.replace("-", "_")
        if form != "auto" and size not in (None, "all"):
            raise typer.BadParameter("--form needs whole lists; drop --subset-size.")
        if self.estimator == "ridge":
            self._refuse_for_ridge()
        elif self.estimator == "rankmatch":
            options["form"] = form
        elif form != "auto":
            raise typer.BadParameter(
                "--form needs --estimator rankmatch; dorm has no likelihood."
            )
        elif size == "pairs":
            raise typer.BadParameter("--subset-size pairs needs --estimator rankmatch.")
        return options

    def check_for_trees(self) -> None:
        """Refuse options that trees do not have."""
        given = {
            "--subset-size": self.subset_size not in (None, "all"),
            "--n-subsets": self.n_subsets != 0.4,
            "--position-weights": self.position_weights is not None,
            "--max-iter": self.max_iter is not None,
        }
        for name, is_given in given.items():
            if is_given:
                raise typer.BadParameter(f"{name} has no effect with --model-kind trees.")

    def _refuse_for_ridge(self) -> None:
        given = {
            "--subset-size": self.subset_size,
            "--position-weights": self.position_weights,
            "--query-weight": self.query_weight,
            "--max-iter": self.max_iter,
            "--form": None if self.form == "auto" else self.form,
        }
        for name, value in given.items():
            if value is not None:
                raise typer.BadParameter(f"{name} has no effect with --estimator ridge.")
