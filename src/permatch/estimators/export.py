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

from collections.abc import Sequence
from os import PathLike
from typing import Any

from permatch._estimators import ESTIMATORS
from permatch._files import whole_file
from permatch.errors import InvalidOptionError
from permatch.estimators.exported_files import exported
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
        _write(path, exported(self, "onnx", name, feature_names, feature_prefix))

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
        _write(path, exported(self, "solr", name, feature_names, feature_prefix))

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
        _write(path, exported(self, "elasticsearch", name, feature_names, feature_prefix))

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
    _write(path, exported(model, to, name))


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


def _write(path: str | PathLike[str], content: bytes) -> None:
    with whole_file(path) as file:
        file.buffer.write(content)
