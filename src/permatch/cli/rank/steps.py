"""What the commands of ``permatch rank`` share: making and loading rankers, folders."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from permatch._estimators import Kind, find_estimator
from permatch.cli.shared.steps import check_kind
from permatch.errors import InvalidOptionError

if TYPE_CHECKING:
    from permatch.cli.rank.options import Columns
    from permatch.cli.shared.options import Elsewhere
    from permatch.datasets.sources import Copy


def new_ranker(
    estimator: str, made_by: Kind, options: dict[str, Any], *, is_search: bool
) -> Any:
    """Return an estimator by its name on the command line, or its search.

    `made_by` is what its scores are made by.
    """
    kind = find_estimator("rank", estimator, is_search=is_search, kind=made_by)
    return kind(**{name: options[name] for name in kind().get_params() if name in options})


def load_ranker(path: "Path | Copy") -> Any:
    """Read a ranker, or a pipeline that prepares features for one; refuse a matcher."""
    from sklearn.pipeline import Pipeline

    from permatch.estimators import BaseRanker, load

    model = load(path)
    return model if isinstance(model, Pipeline) else check_kind(model, path, BaseRanker)


def find_parts(
    columns: "Columns", elsewhere: "Elsewhere", n_features: int | None, path: str
) -> tuple[Any, Any, Any]:
    """Return X, y and qid of a folder that is read from disk or by a cluster."""
    from permatch._tables import Roles
    from permatch.distributed.sources import list_files

    if n_features is not None:
        raise typer.BadParameter(
            "--n-features has no effect on data in parts, whose features are counted "
            "first; drop it, or name the features with --feature-names."
        )
    _, is_parquet = list_files(path)
    columns.check(path, is_table=is_parquet)
    for option, value in (
        ("--document", columns.document),
        ("--zero-based", columns.zero_based or None),
    ):
        if value is not None:
            raise typer.BadParameter(f"{option} has no effect on data in parts; drop it.")
    named = (columns.grade or "grade", columns.qid or "qid") if is_parquet else (None, None)
    if elsewhere.dask is None:
        return path, named[0], named[1]
    from permatch.distributed.dask_rows import read_on_workers

    return read_on_workers(path, Roles(*named))


def check_chances(model: Any, path: Path) -> None:
    """Refuse a model without probabilities of grades."""
    from permatch.metrics.scorer import last_step

    ranker = last_step(model)
    if not hasattr(ranker, "predict_relevance"):
        raise InvalidOptionError(
            "--probabilities needs a model with a likelihood, RankMatch or "
            f"BoostedRankMatch; {path} has a {type(ranker).__name__}. Fit it with "
            "--estimator rankmatch, or drop --probabilities."
        )
