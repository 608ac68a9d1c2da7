"""Prepared features in the systems that serve rankers.

ONNX computes them in the graph.  Solr and Elasticsearch compute features in their feature
stores, so each prepared feature is defined there, from the field of the document that has
the name of its column:

* Solr: a ``SolrFeature`` with a function of the field, or a filter;
* Elasticsearch: a query on the field, or a ``derived_expression`` of other features of the
  set, which is a Lucene expression.

A feature whose query does not match is 0 there, or in newer versions and for trees NaN; so
expressions only ask whether ``..._missing`` is 1.
"""

import re
from collections.abc import Callable
from typing import Any

import numpy as np

from permatch.errors import InvalidOptionError
from permatch.estimators.onnx_graph import ML_DOMAIN, OnnxGraph
from permatch.estimators.prepared_columns import PreparedColumn, PreparedFeature

# Names that expressions and functions read as one variable.
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")

#: From a feature to the features of the store that it is made of, itself last, by name.
Definitions = Callable[[PreparedFeature], dict[str, Any]]


def find_features(preparation: Any, names: list[str] | None) -> list[PreparedFeature]:
    """Return the prepared features that a ranker reads, in its order; None: all."""
    features = preparation.plan_.features
    if names is None:
        return features
    known = {feature.name: feature for feature in features}
    if unknown := [name for name in names if name not in known]:
        raise InvalidOptionError(
            "the ranker of a pipeline must read the features that its preparation makes; "
            f"{unknown[0]!r} is none of them. Fit the pipeline as a whole."
        )
    return [known[name] for name in names]


# ---- ONNX ------------------------------------------------------------------------------


def input_columns(
    features: list[PreparedFeature],
) -> tuple[list[PreparedColumn], list[PreparedColumn]]:
    """Return the columns of numbers, and of categories, that features are made of."""
    columns = {feature.column.name: feature.column for feature in features}.values()
    categories = [column for column in columns if column.kind == "category"]
    return [column for column in columns if column.kind != "category"], categories


def add_features(graph: OnnxGraph, features: list[PreparedFeature]) -> str:
    """Add what turns columns (n, k) into features (n, d) to a graph; return its name."""
    numbers, categories = input_columns(features)
    blocks, found = [], []
    if numbers:
        blocks += _add_numbers(graph, numbers)
        found += [column.features[0] for column in numbers]
        found += [column.features[1] for column in numbers if column.is_indicated]
    for k, column in enumerate(categories):
        blocks.append(_add_categories(graph, k, column))
        found += column.features
    table = blocks[0] if len(blocks) == 1 else graph.add("Concat", *blocks, axis=1)
    places = {feature.name: k for k, feature in enumerate(found)}
    order = [places[feature.name] for feature in features]
    if order == list(range(len(found))):
        return table
    return graph.add("Gather", table, graph.constant(order), axis=1)


def _add_numbers(graph: OnnxGraph, columns: list[PreparedColumn]) -> list[str]:
    """Add the values of numbers, then the indicators of those that have one."""
    is_missing = graph.add("IsNaN", graph.features)
    values = graph.features
    if any(column.is_log for column in columns):
        nan = graph.constant([np.nan])
        logs = graph.add("Log", graph.add("Add", values, graph.constant([1.0])))
        is_negative = graph.add("Less", values, graph.constant([0.0]))
        logs = graph.add("Where", is_negative, nan, logs)
        is_log = graph.constant([[column.is_log for column in columns]])
        values = graph.add("Where", is_log, logs, values)
    fills = [np.nan if column.fill is None else column.fill for column in columns]
    blocks = [graph.add("Where", is_missing, graph.constant([fills]), values)]
    indicated = [k for k, column in enumerate(columns) if column.is_indicated]
    if indicated:
        chosen = graph.add("Gather", is_missing, graph.constant(indicated), axis=1)
        blocks.append(graph.add("Cast", chosen, to=1))  # to float
    return blocks


def _add_categories(graph: OnnxGraph, k: int, column: PreparedColumn) -> str:
    """Add a feature per category of input column `k`, as 0 and 1; any other has none."""
    graph.use(ML_DOMAIN, 1)
    words = [*column.categories, *([""] if column.is_indicated else [])]
    cells = graph.add("Gather", graph.categories, graph.constant([k]), axis=1)
    table = graph.add("OneHotEncoder", cells, domain=ML_DOMAIN, cats_strings=words, zeros=1)
    return graph.add("Squeeze", table, graph.constant([1]))


# ---- feature stores --------------------------------------------------------------------


def store_features(
    features: list[PreparedFeature], define: Definitions
) -> tuple[list[str], list[Any]]:
    """Return the names of features in a store, and the definitions that it needs."""
    definitions: dict[str, Any] = {}
    names = []
    for feature in features:
        names.append(_store_name(feature))
        if not _is_raw(feature):
            definitions |= define(feature)
    raw = {feature.column.label for feature in features}
    if clash := raw & definitions.keys() or {n for n in names if names.count(n) > 1}:
        raise InvalidOptionError(
            f"the store would have two features called {sorted(clash)[0]!r}: a column of "
            "that name, and one that is prepared. Rename the column and fit again."
        )
    return names, list(definitions.values())


def _is_raw(feature: PreparedFeature) -> bool:
    """Tell whether a feature is a column as it is, which the store has already."""
    column = feature.column
    return feature.part == "value" and not column.is_log and not column.was_missing


def _store_name(feature: PreparedFeature) -> str:
    """Return the name in a store, where the column itself has the name of its values."""
    if feature.part == "value" and feature.name == feature.column.label:
        return feature.name if _is_raw(feature) else f"{feature.name}_filled"
    return feature.name


def solr_definitions(feature: PreparedFeature) -> dict[str, Any]:
    """Define a feature by the fields of Solr."""
    name, field = _store_name(feature), _variable(feature, "Solr")
    if feature.part == "category":
        params: dict[str, Any] = {"fq": [f"{{!term f={field}}}{feature.category}"]}
    else:
        params = {"q": "{!func}" + _solr_function(feature, field)}
    kind = "org.apache.solr.ltr.feature.SolrFeature"
    return {name: {"name": name, "class": kind, "params": params}}


def _solr_function(feature: PreparedFeature, field: str) -> str:
    if feature.part == "missing":
        return f"if(exists({field}),0,1)"
    value = f"ln(sum(1,{field}))" if feature.column.is_log else field
    if not feature.column.was_missing:
        return value
    return f"if(exists({field}),{value},{feature.column.fill!r})"


def elasticsearch_definitions(feature: PreparedFeature) -> dict[str, Any]:
    """Define a feature by the fields of Elasticsearch, or by other features of the set."""
    column, name = feature.column, _store_name(feature)
    if feature.part == "category":
        if "{{" in feature.category:
            raise InvalidOptionError(
                f"Elasticsearch reads {{{{ as the start of a parameter; {name!r} has one. "
                "Replace it in the data and fit again."
            )
        return _query(name, {"term": {column.label: feature.category}})
    if feature.part == "missing":
        return _is_absent(column)
    variable = _variable(feature, "Elasticsearch")
    value = f"ln(1 + {variable})" if column.is_log else variable
    found: dict[str, Any] = {}
    if column.was_missing:
        found = _is_absent(column)
        value = f"{variable}_missing == 1 ? {column.fill!r} : {value}"
    language = {"params": [], "template_language": "derived_expression"}
    return found | {name: {"name": name} | language | {"template": value}}


def _is_absent(column: PreparedColumn) -> dict[str, Any]:
    exists = {"exists": {"field": column.label}}
    return _query(f"{column.label}_missing", {"bool": {"must_not": [exists]}})


def _query(name: str, condition: dict[str, Any]) -> dict[str, Any]:
    """Define a feature that is 1 where a document meets a condition."""
    template = {"constant_score": {"filter": condition, "boost": 1.0}}
    language = {"params": [], "template_language": "mustache"}
    return {name: {"name": name} | language | {"template": template}}


def _variable(feature: PreparedFeature, system: str) -> str:
    label = feature.column.label
    if not _VARIABLE.fullmatch(label):
        raise InvalidOptionError(
            f"{system} computes {feature.name!r} from the field {label!r}, whose name must "
            "have letters, digits and underscores only. Rename the column as the field is "
            "called and fit again, or compute the feature in the store and leave it out of "
            "the preparation."
        )
    return label
