"""Documents of judged files scored by models, in blocks of whole queries."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import typer

from permatch._cells import quoted
from permatch._tables import is_table
from permatch._types import FloatArray
from permatch.cli.rank.options import Columns
from permatch.cli.shared.steps import refuse_folder
from permatch.datasets import RankingData
from permatch.datasets.judged import find_form
from permatch.datasets.judged_blocks import iterate_judged
from permatch.datasets.judged_frames import read_frame
from permatch.datasets.runs import Scored
from permatch.datasets.sources import Copy, local_file
from permatch.errors import FeatureIndexError, InvalidQueriesError, TableError
from permatch.estimators.inputs import Inputs
from permatch.estimators.pipelines import split_pipeline
from permatch.metrics.scorer import last_step

# Features held in memory at once; bounds it.
_BLOCK_VALUES = 1 << 20


def stream_scores(
    name: str | Path | Copy,
    models: Sequence[Any],
    columns: Columns,
    *,
    has_grades: bool = True,
    has_chances: bool = False,
) -> Iterator[Scored]:
    """Read documents in blocks of whole queries and score them, in bounded memory.

    The features of a block are those of the first model, and so are the probabilities of
    grades if they are wanted (`has_chances`).  Tables for pipelines, which may
    learn from text, are read whole.
    """
    refuse_folder(name)
    with local_file(name) as path:
        form = find_form(path)
        columns.check(path, is_table=form == "table")
        if form == "table":
            blocks = _table_blocks(path, models, columns, has_grades)
        else:
            blocks = _text_blocks(path, models, columns, form)
        first = 0
        for data in blocks:
            inputs = [_inputs(model, data, columns) for model in models]
            if not first and columns.features is None:
                _tell_order(models, data)
            scores = [
                model.predict(X, qid=data.qid)
                for model, X in zip(models, inputs, strict=True)
            ]
            chances = _chances(models[0], inputs[0], data.qid) if has_chances else None
            yield Scored(replace(data, X=inputs[0]), first, scores, chances)
            first += data.n_documents
            del data, inputs  # before the next ones are read


def _table_blocks(
    path: Any, models: Sequence[Any], columns: Columns, has_grades: bool
) -> Iterator[RankingData]:
    if columns.qid is None:  # a model may know the column
        known_qid = (getattr(last_step(model), "qid", None) for model in models)
        columns = replace(columns, qid=next(filter(None, known_qid), None))
    if any(_is_pipeline(model) for model in models):
        yield read_frame(path, columns.judged(has_grades=has_grades))
        return
    known = [_names(model) for model in models]
    for names in filter(None, known):
        if missing := [name for name in names if name not in (columns.names or names)]:
            raise TableError(
                "--features must name the features of the model, which knows them by name: "
                f"{quoted(missing)} not found in {quoted(columns.names or [])}. Drop "
                "--features, or add these."
            )
    if columns.names is None and any(known) and not all(known):
        raise InvalidQueriesError(
            "a model whose features have no names cannot be compared on a table with one "
            f"that knows them by name, {quoted(next(filter(None, known)) or [])}: nothing "
            "says which column is which of its features. Name its columns, in the order of "
            "its features, among them those of the other: --features."
        )
    features = None
    if all(names is not None for names in known):
        features = list(dict.fromkeys(chain(*filter(None, known))))
    chosen = columns.judged(features, has_grades=has_grades)
    n_features = len(features) if features else models[0].n_features_in_
    yield from iterate_judged(path, "table", max(1, _BLOCK_VALUES // n_features), chosen)


def _text_blocks(
    path: Any, models: Sequence[Any], columns: Columns, form: Any
) -> Iterator[RankingData]:
    for model in models:
        _refuse_text(model, path)
    n_features = models[0].n_features_in_
    n_documents = max(1, _BLOCK_VALUES // n_features)
    how = {"zero_based": columns.zero_based, "n_features": n_features}
    highest = 0
    try:
        for data in iterate_judged(path, form, n_documents, columns.judged(), **how):
            highest = max(highest, _highest_feature(data.X))
            yield data
            del data
    except FeatureIndexError as err:
        advice = (
            f"The model has {n_features} features: use a file with these features, or "
            "fit it again with --n-features."
        )
        raise FeatureIndexError(err.problem, advice) from err
    if any(np.any(_what_counts(model)[highest:]) for model in models):
        typer.echo(
            f"note: {path} has no feature beyond {highest}, the model has {n_features}; "
            "missing features are 0.",
            err=True,
        )


def _is_pipeline(model: Any) -> bool:
    return split_pipeline(model)[0] is not None


def _names(model: Any) -> list[str] | None:
    """Return the columns that a ranker takes of a table, None if they have no names."""
    return Inputs.of(model).columns


def _inputs(model: Any, data: RankingData, columns: Columns) -> Any:
    """Return documents as a model takes them."""
    if _is_pipeline(model):
        return data.X
    if is_table(data.X):  # read for a pipeline beside this model
        chosen = _names(model) or columns.names
        if chosen is None:
            raise InvalidQueriesError(
                "a model whose features have no names cannot be used beside a pipeline on "
                f"{data.path}, a table. Name its columns, in the order of its features: "
                "--features."
            )
        return Inputs(len(chosen), columns=chosen).read(data.X)
    found = data.feature_names
    if found is None:
        return data.X
    names = _names(model)
    if names is None:
        n_features = model.n_features_in_
        if len(found) != n_features:
            raise TableError(
                f"{data.path} must have the {n_features} features of the model; it has "
                f"{len(found)} columns of features, {quoted(found)}. Name those to use, in "
                "the order of the model's: --features."
            )
        return data.X
    if missing := [name for name in names if name not in found]:
        raise TableError(
            f"{data.path} must have the features of the model as columns of numbers; "
            f"{quoted(missing)} not found in {quoted(found)}. Rename or add columns."
        )
    places = [found.index(name) for name in names]
    return data.X if found == names else data.X[:, places]


def _tell_order(models: Sequence[Any], data: RankingData) -> None:
    """Say in which order a model without names takes the columns of a table."""
    found = data.feature_names
    is_named = all(_is_pipeline(model) or _names(model) for model in models)
    if found is not None and not is_named:
        typer.echo(
            f"note: {data.path}: the features of the model have no names; columns taken in "
            f"the order {', '.join(found)}. --features names them.",
            err=True,
        )


def prepared_features(model: Any, X: Any) -> FloatArray:
    """Return the features of documents as a ranker, or that of a pipeline, sees them."""
    preparation, ranker = split_pipeline(model)
    return X if preparation is None else Inputs.of(ranker).read(preparation.transform(X))


def _chances(model: Any, X: Any, qid: Any) -> FloatArray:
    """Return the probabilities of grades, (n, n_grades)."""
    return last_step(model).predict_relevance(prepared_features(model, X), qid=qid)


def _refuse_text(model: Any, path: Any) -> None:
    """Refuse LETOR text where a pipeline prepares the columns of tables."""
    preparation = split_pipeline(model)[0]
    names = None if preparation is None else preparation.feature_names_
    if names is not None:
        raise InvalidQueriesError(
            f"{path} must be a table, CSV or Parquet, with the columns that the model "
            f"prepares, {quoted(names)}; it is LETOR text. Use a table."
        )


def _what_counts(model: Any) -> FloatArray:
    """Return a number per feature, 0 if the model does not look at it."""
    for name in ("coef_", "feature_importances_"):
        if hasattr(model, name):
            return getattr(model, name)
    return np.ones(model.n_features_in_)


def check_same_features(paths: list[str], models: Sequence[Any]) -> None:
    """Refuse to compare models with different numbers of features on LETOR text."""
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
