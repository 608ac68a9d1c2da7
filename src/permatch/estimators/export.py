"""Rankers as files of the systems that serve them.

Scaling within queries is no function of the features of one document, so a model fitted
with it cannot be served.  All formats compute in single precision.

* ONNX: input ``X`` (n, d) float, output ``scores`` (n,) float; a linear model is a matrix
  product.
* Solr: for its ``model-store``; a linear model is an
  ``org.apache.solr.ltr.model.LinearModel``.
* Elasticsearch and OpenSearch with the Learning to Rank plugin: the body of
  ``POST _ltr/_featureset/<feature set>/_createmodel``; a linear model is of the type
  ``model/linear``.

Pipelines that prepare features are exported too: ONNX files then take the columns that the
preparation takes; for the others there are definitions of features besides the model.
"""

import json
from collections.abc import Callable, Sequence
from os import PathLike
from typing import Any

from permatch._estimators import ESTIMATORS
from permatch._files import whole_file
from permatch._tables import check_feature_names
from permatch._validation import check_choice
from permatch.errors import InvalidOptionError
from permatch.estimators.onnx_graph import OnnxGraph
from permatch.estimators.pipelines import split_pipeline
from permatch.estimators.prepared_columns import PreparedFeature
from permatch.estimators.prepared_serving import (
    Definitions,
    add_features,
    elasticsearch_definitions,
    find_features,
    input_columns,
    solr_definitions,
    store_features,
)


class ExportedRanker:
    """What a ranker needs to be served elsewhere.

    A kind of ranker that can be exported writes `_add_scores`, and if these systems have a
    form for it `_solr_model` and `_elasticsearch_model`.
    """

    scaling: str | None
    n_features_in_: int
    feature_names_: list[str] | None

    @property
    def is_servable(self) -> bool:
        """Whether documents are scored one by one, so that the model can be exported."""
        return self.scaling is None

    def to_onnx(
        self,
        path: str | PathLike[str],
        *,
        name: str = "permatch",
        feature_names: Sequence[str] | None = None,
        feature_prefix: str = "f",
    ) -> None:
        """Write the model for any ONNX runtime; needs the extra ``serving``.

        The file maps ``X`` (n, d) to ``scores`` (n,), both float32.  Its metadata
        ``features`` is a JSON list of names, in the order of columns.

        Parameters
        ----------
        path : str or path
            An existing file is replaced, never left half-written.
        name : str
            Name of the model.
        feature_names : sequence of str, optional
            Names of the features there, instead of the model's own.
        feature_prefix : str
            Features without a name are called this plus their number, from 1.
        """
        _write(path, onnx_file(self, name, feature_names, feature_prefix))

    def to_solr(
        self,
        path: str | PathLike[str],
        *,
        name: str = "permatch",
        feature_names: Sequence[str] | None = None,
        feature_prefix: str = "f",
    ) -> None:
        """Write the model for Solr, as JSON for ``/schema/model-store`` of a collection.

        The parameters are those of `to_onnx`.
        """
        _write(path, solr_file(self, name, feature_names, feature_prefix))

    def to_elasticsearch(
        self,
        path: str | PathLike[str],
        *,
        name: str = "permatch",
        feature_names: Sequence[str] | None = None,
        feature_prefix: str = "f",
    ) -> None:
        """Write the model for Elasticsearch or OpenSearch with learning to rank.

        The file is the body of ``POST _ltr/_featureset/<feature set>/_createmodel``.  The
        parameters are those of `to_onnx`.
        """
        _write(path, elasticsearch_file(self, name, feature_names, feature_prefix))

    def _add_scores(self, graph: OnnxGraph, features: str) -> str:
        """Add what turns features (n, d) into scores (n,) to a graph; return its name."""
        raise _no_format(self, "ONNX")

    def _solr_model(self, names: list[str]) -> dict[str, Any]:
        """Return the model as Solr stores it, without its name."""
        raise _no_format(self, "Solr")

    def _elasticsearch_model(self, names: list[str]) -> tuple[str, Any]:
        """Return the type of the model in Elasticsearch, and its definition."""
        raise _no_format(self, "Elasticsearch")


def export(
    model: Any, path: str | PathLike[str], *, to: str, name: str = "permatch"
) -> None:
    """Write a ranker, or a pipeline that prepares features for one, for a serving system.

    Parameters
    ----------
    model : fitted estimator
        A ranker, or a scikit-learn `Pipeline` of a `FeaturePreparation` and a ranker.
    path : str or path
        An existing file is replaced, never left half-written.
    to : str
        "onnx", "solr" or "elasticsearch": the model, as methods of rankers write it.
        "solr-features" or "elasticsearch-features": the definitions of the prepared
        features of a pipeline, which these systems need besides it.
    name : str
        Name of the model.

    Notes
    -----
    ONNX files of a pipeline take the columns of the table: numbers as ``X`` (n, d),
    float32, NaN where missing, and those of categories as ``categories`` (n, k), text, ""
    where missing.  Their names are in the metadata ``features`` and ``categories``.

    In Solr and Elasticsearch the fields of documents must be called as the columns, and
    what a document does not have is missing.

    Examples
    --------
    >>> import json
    >>> import tempfile
    >>> from pathlib import Path
    >>> import pandas as pd
    >>> import permatch as pm
    >>> from sklearn.pipeline import make_pipeline
    >>> lists = pd.DataFrame({"query": [1, 1, 2, 2], "clicks": [9, 0, 5, 1]})
    >>> preparation = pm.FeaturePreparation(log1p=["clicks"])
    >>> pipeline = make_pipeline(preparation, pm.RankMatch(qid="query"))
    >>> _ = pipeline.fit(lists, [1, 0, 1, 0])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder, "features.json")
    ...     pm.export(pipeline, path, to="solr-features")
    ...     json.loads(path.read_text())[0]["params"]
    {'q': '{!func}ln(sum(1,clicks))'}
    """
    _write(path, WRITERS[check_choice(to, "to", WRITERS)](model, name, None, "f"))


#: From a ranker or a pipeline, its name, names of features and a prefix to the bytes of a
#: file.
Writer = Callable[[Any, str, Sequence[str] | None, str], bytes]


def onnx_file(
    model: Any, name: str, feature_names: Sequence[str] | None, feature_prefix: str
) -> bytes:
    """Return a ranker as an ONNX file."""
    preparation, ranker = split_pipeline(model)
    names = _served_names(ranker, name, feature_names, feature_prefix)
    if preparation is None:
        graph = OnnxGraph(len(names))
        return graph.file(ranker._add_scores(graph, graph.features), name, names)
    features = _prepared(preparation, ranker, feature_names)
    numbers, categories = input_columns(features)
    graph = OnnxGraph(len(numbers), len(categories))
    scores = ranker._add_scores(graph, add_features(graph, features))
    labels = [[column.label for column in columns] for columns in (numbers, categories)]
    return graph.file(scores, name, *labels)


def solr_file(
    model: Any, name: str, feature_names: Sequence[str] | None, feature_prefix: str
) -> bytes:
    """Return a ranker as a file for Solr."""
    given = model, name, feature_names, feature_prefix
    ranker, names, _ = _in_store(*given, "Solr", solr_definitions)
    own = ranker._solr_model(names)
    return _as_json({"class": own["class"], "name": name} | own)


def elasticsearch_file(
    model: Any, name: str, feature_names: Sequence[str] | None, feature_prefix: str
) -> bytes:
    """Return a ranker as a file for Elasticsearch and OpenSearch."""
    given = model, name, feature_names, feature_prefix
    ranker, names, _ = _in_store(*given, "Elasticsearch", elasticsearch_definitions)
    kind, definition = ranker._elasticsearch_model(names)
    # The plugin wants a string that holds JSON.
    own = {"type": kind, "definition": json.dumps(definition)}
    return _as_json({"model": {"name": name, "model": own}})


def solr_features_file(
    model: Any, name: str, feature_names: Sequence[str] | None, feature_prefix: str
) -> bytes:
    """Return the prepared features of a pipeline as a file for Solr."""
    _check_prepared(model)
    given = model, name, feature_names, feature_prefix
    return _as_json(_in_store(*given, "Solr", solr_definitions)[2])


def elasticsearch_features_file(
    model: Any, name: str, feature_names: Sequence[str] | None, feature_prefix: str
) -> bytes:
    """Return the prepared features of a pipeline as a file for Elasticsearch."""
    _check_prepared(model)
    given = model, name, feature_names, feature_prefix
    features = _in_store(*given, "Elasticsearch", elasticsearch_definitions)[2]
    return _as_json({"features": features})


#: The systems by name.
WRITERS: dict[str, Writer] = {
    "onnx": onnx_file,
    "solr": solr_file,
    "solr-features": solr_features_file,
    "elasticsearch": elasticsearch_file,
    "elasticsearch-features": elasticsearch_features_file,
}


def _in_store(
    model: Any,
    name: str,
    feature_names: Sequence[str] | None,
    feature_prefix: str,
    system: str,
    define: Definitions,
) -> tuple[Any, list[str], list[Any]]:
    """Return a ranker, the names of its features in a store, and their definitions."""
    preparation, ranker = split_pipeline(model)
    names = _served_names(ranker, name, feature_names, feature_prefix)
    if preparation is None:
        return ranker, names, []
    features = _prepared(preparation, ranker, feature_names)
    if preparation.feature_names_ is None:
        raise InvalidOptionError(
            f"{system} computes prepared features from fields by name; this pipeline was "
            "fitted on an array, whose columns have none. Fit it on a data frame."
        )
    return ranker, *store_features(features, define)


def _prepared(
    preparation: Any, ranker: Any, feature_names: Sequence[str] | None
) -> list[PreparedFeature]:
    """Return the features that a ranker reads of a preparation."""
    preparation._check_fitted()
    if feature_names is not None:
        raise InvalidOptionError(
            "feature_names are for models without a preparation; features of a pipeline "
            "are called after the columns they are made of. Rename the columns and fit "
            "again."
        )
    return find_features(preparation, ranker.columns_ or ranker.feature_names_)


def _check_prepared(model: Any) -> None:
    if split_pipeline(model)[0] is None:
        raise InvalidOptionError(
            "only a pipeline with a FeaturePreparation has features to define; got a "
            f"{type(model).__name__}. Export the model alone."
        )


def _served_names(
    model: Any, name: str, feature_names: Sequence[str] | None, feature_prefix: str
) -> list[str]:
    """Return the names of the features of a model that can be served."""
    if not isinstance(model, ExportedRanker):
        raise InvalidOptionError(
            "a model to export must be a ranker, or a pipeline of a FeaturePreparation and "
            f"a ranker; got a {type(model).__name__}."
        )
    model._check_fitted()  # pyright: ignore[reportAttributeAccessIssue]
    if not model.is_servable:
        raise InvalidOptionError(
            "a model to export must score each document by its own features; this one "
            f"was fitted with scaling={model.scaling!r}, which uses all documents of a "
            "query. Fit it with scaling=None (on the command line: --scaling none)."
        )
    if not isinstance(name, str) or not name.strip():
        raise InvalidOptionError(f"name must be a non-empty string; got {name!r}.")
    n_features = model.n_features_in_
    numbered = [f"{feature_prefix}{k}" for k in range(1, n_features + 1)]
    given = check_feature_names(feature_names, n_features)
    return given or model.feature_names_ or numbered


def _no_format(model: Any, system: str) -> InvalidOptionError:
    rankers = [row.load() for row in ESTIMATORS.values() if row.task == "rank"]
    method = {"ONNX": "_add_scores", "Solr": "_solr_model"}.get(
        system, "_elasticsearch_model"
    )
    own = vars(ExportedRanker)[method]
    names = [kind.__name__ for kind in rankers if getattr(kind, method) is not own]
    return InvalidOptionError(
        f"{system} has no form for a {type(model).__name__}; it has one for "
        f"{', '.join(names)}. Fit one of these."
    )


def _as_json(document: Any) -> bytes:
    return (json.dumps(document, indent=1) + "\n").encode()


def _write(path: str | PathLike[str], content: bytes) -> None:
    with whole_file(path) as file:
        file.buffer.write(content)
