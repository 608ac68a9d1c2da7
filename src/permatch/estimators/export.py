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
"""

import json
from collections.abc import Callable, Sequence
from os import PathLike
from typing import Any

from permatch._estimators import ESTIMATORS
from permatch._files import whole_file
from permatch._tables import check_feature_names
from permatch.errors import InvalidOptionError
from permatch.estimators.onnx_graph import OnnxGraph


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


#: From a ranker, its name, names of features and a prefix to the bytes of a file.
Writer = Callable[[Any, str, Sequence[str] | None, str], bytes]


def onnx_file(
    model: Any, name: str, feature_names: Sequence[str] | None, feature_prefix: str
) -> bytes:
    """Return a ranker as an ONNX file."""
    names = _served_names(model, name, feature_names, feature_prefix)
    graph = OnnxGraph(len(names))
    return graph.file(model._add_scores(graph, graph.features), name, names)


def solr_file(
    model: Any, name: str, feature_names: Sequence[str] | None, feature_prefix: str
) -> bytes:
    """Return a ranker as a file for Solr."""
    names = _served_names(model, name, feature_names, feature_prefix)
    own = model._solr_model(names)
    return _as_json({"class": own["class"], "name": name} | own)


def elasticsearch_file(
    model: Any, name: str, feature_names: Sequence[str] | None, feature_prefix: str
) -> bytes:
    """Return a ranker as a file for Elasticsearch and OpenSearch."""
    names = _served_names(model, name, feature_names, feature_prefix)
    kind, definition = model._elasticsearch_model(names)
    # The plugin wants a string that holds JSON.
    own = {"type": kind, "definition": json.dumps(definition)}
    return _as_json({"model": {"name": name, "model": own}})


#: The systems by name.
WRITERS: dict[str, Writer] = {
    "onnx": onnx_file,
    "solr": solr_file,
    "elasticsearch": elasticsearch_file,
}


def _served_names(
    model: Any, name: str, feature_names: Sequence[str] | None, feature_prefix: str
) -> list[str]:
    """Return the names of the features of a model that can be served."""
    model._check_fitted()
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


def _as_json(document: dict[str, Any]) -> bytes:
    return (json.dumps(document, indent=1) + "\n").encode()


def _write(path: str | PathLike[str], content: bytes) -> None:
    with whole_file(path) as file:
        file.buffer.write(content)
