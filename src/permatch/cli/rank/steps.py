"""What the commands of ``permatch rank`` do: make and load rankers, score by blocks."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import typer

from permatch._estimators import Kind, find_estimator
from permatch._types import FloatArray
from permatch.cli.shared.steps import check_kind, load_kind, refuse_folder
from permatch.errors import FeatureIndexError, InvalidOptionError, InvalidQueriesError

if TYPE_CHECKING:
    from permatch.cli.rank.options import Columns
    from permatch.cli.shared.options import Elsewhere
    from permatch.datasets import RankingData
    from permatch.datasets.runs import Scored
    from permatch.datasets.sources import Copy
    from permatch.estimators import BaseRanker

# Features held in memory at once; bounds it.
_BLOCK_VALUES = 1 << 20


def new_ranker(
    estimator: str, made_by: Kind, options: dict[str, Any], *, is_search: bool
) -> Any:
    """Return an estimator by its name on the command line, or its search.

    `made_by` is what its scores are made by.
    """
    kind = find_estimator("rank", estimator, is_search=is_search, kind=made_by)
    return kind(**{name: options[name] for name in kind().get_params() if name in options})


def load_ranker(path: Path) -> "BaseRanker":
    """Read a model, and refuse one that matches instead of ranking."""
    from permatch.estimators import BaseRanker

    return load_kind(path, BaseRanker)


def load_exported(path: "Path | Copy") -> Any:
    """Read a ranker, or a pipeline that prepares features for one."""
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
    named = (columns.grade, columns.qid) if is_parquet else (None, None)
    if elsewhere.dask is None:
        return path, named[0], named[1]
    from permatch.distributed.dask_rows import read_on_workers

    return read_on_workers(path, Roles(*named))


def stream_scores(
    name: "str | Path | Copy", models: "list[BaseRanker]", *, has_chances: bool = False
) -> "Iterator[Scored]":
    """Read documents in blocks of whole queries and score them, in bounded memory.

    `has_chances`: with the probabilities of grades by the first model, which has them.
    """
    from permatch.datasets import iterate_letor
    from permatch.datasets.runs import Scored
    from permatch.datasets.sources import local_file

    refuse_folder(name)
    n_features = models[0].n_features_in_
    n_documents = max(1, _BLOCK_VALUES // n_features)
    highest = first = 0
    with local_file(name) as path:
        try:
            for data in iterate_letor(path, n_documents, n_features=n_features):
                scores = [model.predict(data.X, qid=data.qid) for model in models]
                highest = max(highest, _highest_feature(data.X))
                chances = None
                if has_chances:
                    chances = _relevance(models[0], data)
                yield Scored(data, first, scores, chances)
                first += data.n_documents
        except FeatureIndexError as err:
            advice = (
                f"The model has {n_features} features: use a file with these features, or "
                "fit it again with --n-features."
            )
            raise FeatureIndexError(err.problem, advice) from err
    if any(np.any(_what_counts(model)[highest:]) for model in models):
        typer.echo(
            f"note: {name} has no feature beyond {highest}, the model has {n_features}; "
            "missing features are 0.",
            err=True,
        )


def check_chances(model: Any, path: Path) -> None:
    """Refuse a model without probabilities of grades."""
    if not hasattr(model, "predict_relevance"):
        raise InvalidOptionError(
            "--probabilities needs a model with a likelihood, RankMatch or "
            f"BoostedRankMatch; {path} has a {type(model).__name__}. Fit it with "
            "--estimator rankmatch, or drop --probabilities."
        )


def _relevance(model: Any, data: "RankingData") -> FloatArray:
    return model.predict_relevance(data.X, qid=data.qid)


def _what_counts(model: "BaseRanker") -> FloatArray:
    """Return a number per feature, 0 if the model does not look at it."""
    for name in ("coef_", "feature_importances_"):
        if hasattr(model, name):
            return getattr(model, name)
    return np.ones(model.n_features_in_)


def check_same_features(paths: list[str], models: "list[BaseRanker]") -> None:
    """Refuse to compare models with different numbers of features."""
    counts = [model.n_features_in_ for model in models]
    other = next((k for k, count in enumerate(counts) if count != counts[0]), 0)
    if other:
        raise InvalidQueriesError(
            f"models to compare must have the same number of features; {paths[0]} has "
            f"{counts[0]}, {paths[other]} has {counts[other]}. Write the scores of each "
            "with permatch rank predict, from a file of its own, and compare these."
        )


def _highest_feature(documents: FloatArray) -> int:
    """Return the number, from 1, of the last feature that is not 0 throughout."""
    used = np.flatnonzero(documents.any(axis=0))
    return int(used[-1]) + 1 if len(used) else 0
