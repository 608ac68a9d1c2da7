"""Models of links: the columns they need, and what they make of them.

A model that calibrates probabilities has one feature, ``logit(column)``, made from the
column of that name; all other features are columns as they are.
"""

import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from permatch._types import FloatArray
from permatch.datasets.columns import Columns
from permatch.datasets.edge_rows import check_columns
from permatch.errors import InvalidOptionError
from permatch.estimators import BaseMatcher, load
from permatch.linking.odds import LARGEST, log_odds, probability_of
from permatch.linking.pairs import ScoredPairs

_LOGIT = re.compile(r"logit\((.+)\)")


def logit_of(column: str) -> str:
    """Name the feature made from a column of probabilities."""
    return f"logit({column})"


def column_of(feature: str) -> str:
    """Name the column that a feature is made from."""
    found = _LOGIT.fullmatch(feature)
    return feature if found is None else found[1]


def features_of(columns: Columns, names: Sequence[str]) -> FloatArray:
    """Return the features of these names, from columns in the same order.

    Log-odds are limited to those of the largest probability below 1.
    """
    features = columns.features.copy()
    (_, (left, _), (right, _)) = columns.ids
    for k, name in enumerate(names):
        if _LOGIT.fullmatch(name):
            own = replace(
                columns,
                features=columns.features[:, [k]],
                feature_names=[columns.feature_names[k]],
            )
            odds, _ = log_odds(ScoredPairs(own, "probability", left, right, None))
            features[:, k] = np.clip(odds, -LARGEST, LARGEST)
    return features


def load_model(model: Any) -> Any:
    """Return a model, read from its file if a path is given."""
    return load(model) if isinstance(model, str | Path) else model


def model_columns(model: Any) -> tuple[str, ...]:
    """Return the columns that a model needs, in the order of its features."""
    if not isinstance(model, BaseMatcher) or not model.__sklearn_is_fitted__():
        raise InvalidOptionError(
            "model must be a fitted MAPMatching or MAPMatchingCV, such as "
            f"permatch.fit_links returns, or the path of its file; got {model!r}."
        )
    names = model.feature_names_
    if names is None:
        raise InvalidOptionError(
            "model must know the names of its features, to find them in the table; it was "
            "fitted without. Fit it by permatch.fit_links, or with feature_names=."
        )
    n_nodes = sum(model._n_node_features)
    if model.unmatched_ != "any" or n_nodes:
        raise InvalidOptionError(
            "model must let any record stay without a partner, by one score learned for "
            f"all; this one has unmatched_={model.unmatched_!r} and {n_nodes} features of "
            "single records. Fit it by permatch.fit_links, or with unmatched='any'."
        )
    return tuple(column_of(name) for name in names)


def model_odds(model: Any, columns: Columns) -> tuple[FloatArray, FloatArray]:
    """Return log-odds and probability of every pair by itself, from the model's columns."""
    if not len(columns.features):  # no pairs, no links
        return np.zeros(0), np.zeros(0)
    check_columns(columns)
    odds = model._odds(features_of(columns, model.feature_names_))
    return odds, probability_of(odds)
