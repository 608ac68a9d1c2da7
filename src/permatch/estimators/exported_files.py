"""The files of rankers, and of pipelines that prepare features for one, by system."""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

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


def exported(
    model: Any,
    to: str,
    name: str,
    feature_names: Sequence[str] | None = None,
    feature_prefix: str = "f",
) -> bytes:
    """Return a ranker, or a pipeline with one, as a file for the system `to`."""
    write = SYSTEMS[check_choice(to, "to", SYSTEMS)]
    return write(_served(model, name, feature_names, feature_prefix))


@dataclass(frozen=True, eq=False)
class _Served:
    """A ranker to be served, and what its features are called there.

    `prepared` are the same features if they are made of columns, None if they are given;
    `are_fields` tells whether these columns have names.
    """

    ranker: Any
    name: str
    names: list[str]
    prepared: list[PreparedFeature] | None = None
    are_fields: bool = True

    def in_store(self, system: str, define: Definitions) -> tuple[list[str], list[Any]]:
        """Return the names of the features in a store, and what it must define."""
        if self.prepared is None:
            return self.names, []
        if not self.are_fields:
            raise InvalidOptionError(
                f"{system} computes prepared features from fields by name; this pipeline "
                "was fitted on an array, whose columns have none. Fit it on a data frame."
            )
        return store_features(self.prepared, define)

    def definitions(self, system: str, define: Definitions) -> list[Any]:
        """Return what a store must define; without a preparation that is nothing."""
        if self.prepared is None:
            raise InvalidOptionError(
                "only a pipeline with a FeaturePreparation has features to define; got a "
                f"{type(self.ranker).__name__}. Export the model alone."
            )
        return self.in_store(system, define)[1]


def _served(
    model: Any, name: str, feature_names: Sequence[str] | None, feature_prefix: str
) -> _Served:
    """Return a model that can be served, checked."""
    preparation, ranker = split_pipeline(model)
    if not hasattr(ranker, "is_servable"):
        raise InvalidOptionError(
            "a model to export must be a ranker, or a pipeline of a FeaturePreparation and "
            f"a ranker; got a {type(ranker).__name__}."
        )
    ranker._check_fitted()
    if not ranker.is_servable:
        raise InvalidOptionError(
            "a model to export must score each document by its own features; this one "
            f"was fitted with scaling={ranker.scaling!r}, which uses all documents of a "
            "query. Fit it with scaling=None (on the command line: --scaling none)."
        )
    if not isinstance(name, str) or not name.strip():
        raise InvalidOptionError(f"name must be a non-empty string; got {name!r}.")
    n_features = ranker.n_features_in_
    numbered = [f"{feature_prefix}{k}" for k in range(1, n_features + 1)]
    given = check_feature_names(feature_names, n_features)
    names = given or ranker.feature_names_ or numbered
    if preparation is None:
        return _Served(ranker, name, names)
    preparation._check_fitted()
    if feature_names is not None:
        raise InvalidOptionError(
            "feature_names are for models without a preparation; features of a pipeline "
            "are called after the columns they are made of. Rename the columns and fit "
            "again."
        )
    features = find_features(preparation, ranker.columns_ or ranker.feature_names_)
    return _Served(ranker, name, names, features, preparation.feature_names_ is not None)


def _onnx(served: _Served) -> bytes:
    ranker, names = served.ranker, served.names
    if served.prepared is None:
        graph = OnnxGraph(len(names))
        return graph.file(ranker._add_scores(graph, graph.features), served.name, names)
    numbers, categories = input_columns(served.prepared)
    graph = OnnxGraph(len(numbers), len(categories))
    scores = ranker._add_scores(graph, add_features(graph, served.prepared))
    labels = [[column.label for column in columns] for columns in (numbers, categories)]
    return graph.file(scores, served.name, *labels)


def _solr(served: _Served) -> bytes:
    names, _ = served.in_store("Solr", solr_definitions)
    own = served.ranker._solr_model(names)
    return _as_json({"class": own["class"], "name": served.name} | own)


def _solr_features(served: _Served) -> bytes:
    return _as_json(served.definitions("Solr", solr_definitions))


def _elasticsearch(served: _Served) -> bytes:
    names, _ = served.in_store("Elasticsearch", elasticsearch_definitions)
    kind, definition = served.ranker._elasticsearch_model(names)
    # The plugin wants a string that holds JSON.
    own = {"type": kind, "definition": json.dumps(definition)}
    return _as_json({"model": {"name": served.name, "model": own}})


def _elasticsearch_features(served: _Served) -> bytes:
    features = served.definitions("Elasticsearch", elasticsearch_definitions)
    return _as_json({"features": features})


#: What is written, by the names of systems.
SYSTEMS: dict[str, Callable[[_Served], bytes]] = {
    "onnx": _onnx,
    "solr": _solr,
    "solr-features": _solr_features,
    "elasticsearch": _elasticsearch,
    "elasticsearch-features": _elasticsearch_features,
}


def _as_json(document: Any) -> bytes:
    return (json.dumps(document, indent=1) + "\n").encode()
