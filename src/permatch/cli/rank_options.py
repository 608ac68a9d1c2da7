"""The options that the commands of ``permatch rank`` share."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from permatch.cli.match_options import check_alpha
from permatch.cli.options import check_jobs

#: Most features that a LETOR file may have.
MAX_FEATURES = 1 << 20
#: Larger numbers than these no list and no test needs.
MAX_CUTOFF = MAX_RESAMPLES = 10**9


class Estimator(StrEnum):
    """What ``--estimator`` accepts."""

    RANKMATCH = "rankmatch"
    DORM = "dorm"


class Scaling(StrEnum):
    """What ``--scaling`` accepts."""

    MINMAX = "minmax"
    STANDARD = "standard"
    NONE = "none"


class Form(StrEnum):
    """What ``--form`` accepts."""

    AUTO = "auto"
    EXACT = "exact"
    PROFILE = "profile"


class QueryWeight(StrEnum):
    """What ``--query-weight`` accepts."""

    OBSERVATIONS = "observations"
    QUERIES = "queries"
    PER_DOCUMENT = "per-document"
    PER_RELEVANT = "per-relevant"


class Discount(StrEnum):
    """What ``--discount`` accepts."""

    PAPER = "paper"
    LETOR = "letor"


class RunFormat(StrEnum):
    """What ``predict --format`` accepts."""

    SCORES = "scores"
    TREC = "trec"
    CSV = "csv"
    JSONL = "jsonl"


class Target(StrEnum):
    """What ``export --to`` accepts."""

    ONNX = "onnx"
    SOLR = "solr"
    ELASTICSEARCH_LTR = "elasticsearch-ltr"


def check_subset_size(text: str) -> str:
    """Refuse what is neither a word nor a number of documents."""
    is_number = len(text) < 10 and text.isdecimal() and text.isascii()
    if text not in ("all", "grades", "pairs") and not (is_number and int(text) >= 2):
        raise typer.BadParameter(f"{text!r} is none of all, grades, pairs and 2, 3, 4 ...")
    return text


def check_n_subsets(number: float) -> float:
    """Refuse what draws nothing."""
    if not 0.0 < number < float("inf"):
        raise typer.BadParameter("a finite number above 0 is needed.")
    return number


def parse_cutoffs(text: str) -> list[int]:
    """Split ``1,3,5,10``."""
    parts = [part.strip() for part in text.split(",")]
    if not all(map(_is_cutoff, parts)):
        raise typer.BadParameter(f"--at {text!r} is no list such as 1,3,5,10.")
    return sorted({int(part) for part in parts})


def _is_cutoff(text: str) -> bool:
    is_short = len(text) <= len(str(MAX_CUTOFF))
    return is_short and text.isdecimal() and text.isascii() and int(text) >= 1


_FILE_HELP = (
    "LETOR (SVMlight) file, 'grade qid:ID 1:value ... # docid'; also .gz; - is stdin."
)
_MODEL_PANEL = "What is learnt"
_ALPHA_PANEL = "How strong the penalty is"

Judged = Annotated[str, typer.Argument(metavar="FILE", help=_FILE_HELP, show_default=False)]
Model = Annotated[
    Path,
    typer.Argument(metavar="MODEL", help="Model file written by fit.", show_default=False),
]
EstimatorOption = Annotated[
    Estimator,
    typer.Option(
        "--estimator",
        help="Maximum likelihood, or maximum margin with an NDCG loss (dorm).",
        rich_help_panel=_MODEL_PANEL,
    ),
]
SubsetSize = Annotated[
    str | None,
    typer.Option(
        "--subset-size",
        "-M",
        metavar="all|grades|pairs|N",
        help="What one observation is: the whole list, a random subset with one document "
        "of each grade or of N documents, or a pair. Default: all; dorm: grades.",
        callback=lambda text: None if text is None else check_subset_size(text),
        show_default=False,
        rich_help_panel=_MODEL_PANEL,
    ),
]
NSubsets = Annotated[
    float,
    typer.Option(
        "--n-subsets",
        help="Random subsets of a query, times its documents times N.",
        callback=check_n_subsets,
        rich_help_panel=_MODEL_PANEL,
    ),
]
FormOption = Annotated[
    Form,
    typer.Option(
        "--form",
        help="Likelihood of whole lists: exact, or its convex bound for long ones.",
        rich_help_panel=_MODEL_PANEL,
    ),
]
QueryWeightOption = Annotated[
    QueryWeight | None,
    typer.Option(
        "--query-weight",
        help="What a query counts. Default: observations.",
        show_default=False,
        rich_help_panel=_MODEL_PANEL,
    ),
]
ScalingOption = Annotated[
    Scaling,
    typer.Option(
        "--scaling",
        help="Of features within each query; none for a model to be exported.",
        rich_help_panel=_MODEL_PANEL,
    ),
]
MaxIter = Annotated[
    int | None,
    typer.Option(
        "--max-iter",
        min=1,
        help="Most steps.",
        show_default=False,
        rich_help_panel=_MODEL_PANEL,
    ),
]
Alpha = Annotated[
    float | None,
    typer.Option(
        "--alpha",
        "-a",
        help="Strength of the penalty, instead of a choice. Default: the estimator's.",
        callback=check_alpha,
        show_default=False,
        rich_help_panel=_ALPHA_PANEL,
    ),
]
Alphas = Annotated[
    str | None,
    typer.Option(
        "--alphas",
        metavar="A,B,...",
        help="The values to choose from.",
        show_default=False,
        rich_help_panel=_ALPHA_PANEL,
    ),
]
Seed = Annotated[int, typer.Option("--seed", min=0, help="Seed of subsets and folds.")]
Jobs = Annotated[
    int,
    typer.Option(
        "--jobs",
        "-j",
        help="Threads, -1 for all processors; the answer is the same.",
        callback=check_jobs,
    ),
]
DiscountOption = Annotated[
    Discount,
    typer.Option("--discount", help="Of NDCG: 1/log2(1+j), or that of LETOR's script."),
]
Cutoffs = Annotated[
    str, typer.Option("--at", metavar="K,...", help="Positions of NDCG@k and P@k.")
]
FeatureNames = Annotated[
    Path | None,
    typer.Option(
        "--feature-names",
        metavar="FILE",
        help="Names of the features, one per line.",
        show_default=False,
    ),
]
AsJson = Annotated[
    bool, typer.Option("--json", metavar="", help="Print one JSON object and nothing else.")
]


def subset_size_of(text: str) -> str | int:
    """Return what the estimator takes."""
    return int(text) if text.isdecimal() else text


def model_options(
    estimator: Estimator,
    subset_size: str | None,
    n_subsets: float,
    form: Form,
    query_weight: QueryWeight | None,
    scaling: Scaling,
    max_iter: int | None,
    seed: int,
    jobs: int,
) -> dict[str, Any]:
    """Collect the parameters of an estimator."""
    options: dict[str, Any] = {
        "n_subsets": n_subsets,
        "scaling": None if scaling is Scaling.NONE else scaling.value,
        "random_state": seed,
        "n_jobs": jobs,
    }
    if subset_size is not None:
        options["subset_size"] = subset_size_of(subset_size)
    if max_iter is not None:
        options["max_iter"] = max_iter
    if query_weight is not None:
        options["query_weight"] = query_weight.replace("-", "_")
    if form is not Form.AUTO and subset_size not in (None, "all"):
        raise typer.BadParameter("--form is a matter of whole lists; drop --subset-size.")
    if estimator is Estimator.RANKMATCH:
        options["form"] = form.value
    elif form is not Form.AUTO:
        raise typer.BadParameter("--form is a matter of rankmatch; dorm has no likelihood.")
    elif subset_size == "pairs":
        raise typer.BadParameter("--subset-size pairs works with rankmatch only.")
    return options
