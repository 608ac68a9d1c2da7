"""Export linear rankers to serving systems.

A document's score is ``<coef_, features>``.  Scaling within queries is not linear in the
features of one document, so a model fitted with it cannot be exported.  All three formats
compute in single precision.

* ONNX: a matrix product, input ``X`` (n, d) float, output ``scores`` (n,) float.
* Solr: for its ``model-store``, an ``org.apache.solr.ltr.model.LinearModel``.
* Elasticsearch and OpenSearch with the Learning to Rank plugin: the body of
  ``POST _ltr/_featureset/<feature set>/_createmodel``, of the type ``model/linear``.
"""

import json
from collections.abc import Sequence
from typing import Any

import numpy as np

from permatch._estimators import ESTIMATORS
from permatch._optional import require
from permatch._version import __version__
from permatch.errors import InvalidOptionError
from permatch.estimators.checks import check_feature_names
from permatch.estimators.linear_ranker import LinearRanker
from permatch.estimators.ranker import BaseRanker

#: Format of the operators; every runtime since 2020 reads it.
_ONNX_OPSET = 13
_ONNX_IR = 7


def to_onnx(
    model: BaseRanker,
    *,
    name: str = "permatch",
    feature_names: Sequence[str] | None = None,
    feature_prefix: str = "f",
) -> bytes:
    """Return a ranker as an ONNX model that maps documents to scores.

    Parameters
    ----------
    model : fitted ranker
        Linear, such as `RankMatch`, without scaling within queries.
    name : str
        Name of the graph.
    feature_names : sequence of str, optional
        Names in the file's metadata, instead of the model's own.
    feature_prefix : str
        Features without a name are called this plus their number, from 1.

    Returns
    -------
    bytes
        The file.  Its input ``X`` has the shape (n, d), its output ``scores`` (n,), both
        float32; the metadata ``features`` is a JSON list of names, in the order of columns.
    """
    weights = _serving_weights(model, feature_names, feature_prefix)
    onnx = require("onnx", "serving", what="export to ONNX")
    helper = require("onnx.helper", "serving")
    values = np.array(list(weights.values()), dtype=np.float32)
    real = onnx.TensorProto.FLOAT
    # A vector would do instead of the column, but fails in runtimes given no documents.
    graph = helper.make_graph(
        [
            helper.make_node("MatMul", ["X", "coef"], ["column"]),
            helper.make_node("Squeeze", ["column", "axis"], ["scores"]),
        ],
        _check_name(name),
        [helper.make_tensor_value_info("X", real, ["n", len(values)])],
        [helper.make_tensor_value_info("scores", real, ["n"])],
        [
            helper.make_tensor("coef", real, [len(values), 1], values),
            helper.make_tensor("axis", onnx.TensorProto.INT64, [1], [1]),
        ],
    )
    document = helper.make_model(
        graph,
        producer_name="permatch",
        producer_version=__version__,
        opset_imports=[helper.make_opsetid("", _ONNX_OPSET)],
        ir_version=_ONNX_IR,
    )
    helper.set_model_props(document, {"features": json.dumps(list(weights))})
    onnx.checker.check_model(document)
    return document.SerializeToString()


def to_solr(
    model: BaseRanker,
    *,
    name: str = "permatch",
    feature_names: Sequence[str] | None = None,
    feature_prefix: str = "f",
) -> dict[str, Any]:
    """Return a ranker as Solr's Learning to Rank module stores it.

    Send it as JSON to ``/schema/model-store`` of a collection.  The parameters are those of
    `to_onnx`; the names are those of the model and of the features in Solr.
    """
    weights = _serving_weights(model, feature_names, feature_prefix)
    return {
        "class": "org.apache.solr.ltr.model.LinearModel",
        "name": _check_name(name),
        "features": [{"name": feature} for feature in weights],
        "params": {"weights": weights},
    }


def to_elasticsearch_ltr(
    model: BaseRanker,
    *,
    name: str = "permatch",
    feature_names: Sequence[str] | None = None,
    feature_prefix: str = "f",
) -> dict[str, Any]:
    """Return a ranker as the Learning to Rank plugin of Elasticsearch stores it.

    Send it as JSON to ``_ltr/_featureset/<feature set>/_createmodel`` of Elasticsearch or
    OpenSearch.  The parameters are those of `to_onnx`; the names are those of the model and
    of the features there.
    """
    weights = _serving_weights(model, feature_names, feature_prefix)
    definition = json.dumps(weights)  # the plugin wants a string that holds JSON
    return {
        "model": {
            "name": _check_name(name),
            "model": {"type": "model/linear", "definition": definition},
        }
    }


def _serving_weights(
    model: BaseRanker, feature_names: Sequence[str] | None, feature_prefix: str
) -> dict[str, float]:
    """Return the coefficient of every feature by its name, in the order of columns."""
    if not isinstance(model, LinearRanker):
        kinds = [row.load() for row in ESTIMATORS.values() if row.task == "rank"]
        names = [kind.__name__ for kind in kinds if issubclass(kind, LinearRanker)]
        raise InvalidOptionError(
            "a model to export must be a linear ranker of permatch "
            f"({', '.join(names)}); got {type(model).__name__}."
        )
    model._check_fitted()
    scaling = model.get_params()["scaling"]
    if scaling is not None:
        raise InvalidOptionError(
            "a model to export must score each document by its own features; this one "
            f"was fitted with scaling={scaling!r}, which uses all documents of a query. "
            "Fit it with scaling=None (on the command line: --scaling none)."
        )
    names = check_feature_names(feature_names, model.n_features_in_)
    if names is None:
        names = model.feature_names_
    if names is None:
        names = [f"{feature_prefix}{k}" for k in range(1, model.n_features_in_ + 1)]
    if not (np.abs(model.coef_) <= np.finfo(np.float32).max).all():
        raise InvalidOptionError(
            "coefficients of a model to export must fit single precision; one is above "
            "3e38. Rescale the features and fit again."
        )
    return dict(zip(names, model.coef_.tolist(), strict=True))


def _check_name(name: str) -> str:
    if not isinstance(name, str) or not name.strip():
        raise InvalidOptionError(f"name must be a non-empty string; got {name!r}.")
    return name
