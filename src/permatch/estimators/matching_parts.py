"""Matchers on graphs in parts: all that a fit asks of them is a sum over shards."""

import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any

import numpy as np

from permatch._optional import require
from permatch._progress import Stages
from permatch._shards import Shards, showing
from permatch._types import FloatArray, IntArray
from permatch.datasets.columns import Roles
from permatch.distributed.disk import DiskShards
from permatch.distributed.graph_rows import GraphShard
from permatch.distributed.opening_graphs import (
    ROLES,
    open_graphs,
    roles_of,
    store_shards,
    value_pairs,
)
from permatch.errors import FeatureCountError, InvalidOptionError, TableError
from permatch.estimators.checks import DataSet, check_graphs
from permatch.estimators.scaling import Arranged, Scaling, find_scaling, settle
from permatch.graphs import BipartiteGraph
from permatch.inference import AbstractEngine
from permatch.labels import check_known
from permatch.metrics import hamming_loss
from permatch.objectives import Parameters, arrange
from permatch.objectives.sharded import ShardedLikelihood, hinge_of, likelihood_of

# What columns of a table may be named for, besides features.
_COLUMNS = ("graph", "left", "right", "label")


@dataclass(frozen=True)
class Outline:
    """What a fit has to know of the graphs of a shard beforehand."""

    n_graphs: int
    n_features: tuple[int, int, int]  # of edges, left nodes and right nodes
    sizes: frozenset[int]  # of square graphs
    total_size: int
    n_matches: int
    spare: tuple[int, int, int, int] | None  # see `_spare`
    incomplete: int | None  # the first graph whose label is incomplete
    has_partners: bool


@dataclass(frozen=True, eq=False)
class GraphsInParts:
    """Labelled training graphs in shards, each a `GraphShard`; their weights are equal.

    `columns` are the names of graph, left, right and label in the table, if it is one.
    """

    shards: Shards
    columns: dict[str, str] | None = None

    @contextmanager
    def preparing(self) -> Iterator[None]:
        """Show what passes over the shards before a fit begins."""
        with Stages("preparing") as stages, showing(self.shards.passes, stages.say):
            yield

    @cached_property
    def outlines(self) -> list[Outline]:
        """What is known of every shard."""
        return self.shards.map(_outline)

    @property
    def n_graphs(self) -> int:
        """Graphs of all shards."""
        return sum(own.n_graphs for own in self.outlines)

    @property
    def sizes(self) -> set[int]:
        """The sizes of square graphs."""
        return {size for own in self.outlines for size in own.sizes}

    @property
    def mean_size(self) -> float:
        """The mean size of graphs."""
        return sum(own.total_size for own in self.outlines) / self.n_graphs

    def first(self, name: str) -> Any:
        """Return the first of what outlines say, None if none says anything."""
        found = (getattr(own, name) for own in self.outlines)
        return next((one for one in found if one is not None), None)

    def take(self, chosen: IntArray) -> "GraphsInParts":
        """Return some of the graphs."""
        return GraphsInParts(self.shards.derive(GraphShard.take, chosen))

    def settled(self, parameters: Parameters, *, is_scaled: bool) -> tuple[Shards, Scaling]:
        """Return numbers and arranged graphs with scaled features, and the scaling."""
        numbered = self.shards.derive(_arranged, parameters, self.n_graphs)
        if isinstance(numbered, DiskShards):
            numbered = store_shards(numbered)
        scaling = find_scaling(numbered.derive(_second), parameters, is_scaled=is_scaled)
        return numbered.derive(_settled, scaling), scaling

    def likelihood(
        self,
        settled: Shards,
        parameters: Parameters,
        engine: AbstractEngine,
        n_jobs: int,
        prior: FloatArray,
    ) -> ShardedLikelihood:
        """Return the likelihood of settled graphs."""
        shards = settled.derive(likelihood_of, engine, n_jobs)
        n_shards = len(self.outlines)
        return ShardedLikelihood(
            _kept(shards), parameters, 0.0, engine, n_jobs, n_shards, prior
        )

    def hinge(self, settled: Shards, n_jobs: int) -> Shards:
        """Return the shards of the hinge of settled graphs."""
        return _kept(settled.derive(hinge_of, n_jobs))

    def hamming_loss(self, modes: Callable[[Any], list[IntArray]]) -> float:
        """Return the Hamming loss of a function from graphs to matchings."""
        found = self.shards.map(_modes_of, modes)
        true, predicted = (sum(own, []) for own in zip(*found, strict=True))
        return hamming_loss(true, predicted)

    def log_likelihood(self, mean: Callable[[DataSet], float]) -> float:
        """Return the mean log-likelihood, given that of data in memory by their shares."""
        return math.fsum(self.shards.map(_log_likelihood_of, mean, self.n_graphs))


def _kept(shards: Shards) -> Shards:
    """Keep what objectives hold, but for those on disk, which are made in every pass."""
    return shards if isinstance(shards, DiskShards) else store_shards(shards)


def refuse_weights(sample_weight: Any) -> None:
    """Refuse weights of graphs in parts."""
    if sample_weight is not None:
        raise InvalidOptionError(
            "graphs in parts have equal weights; got sample_weight. Leave it out, or load "
            "the graphs into memory."
        )


def open_training(
    graphs: Any, matchings: Any, feature_names: Any
) -> tuple[GraphsInParts, list[str] | None]:
    """Return training graphs in parts, and the names of their features if known."""
    data, table = _open(graphs, _roles(matchings, feature_names))
    if table is None:
        return data, None if feature_names is None else list(feature_names)
    if not any(own.n_matches for own in data.outlines):
        raise TableError(
            f"the table must have pairs that match, with 1 in the column {table.label!r}; "
            "there are none. Label some pairs, or name another column."
        )
    return data, list(table.features or ())


def open_more(
    graphs: Any,
    matchings: Any,
    columns: dict[str, Any] | None,
    feature_names: list[str] | None,
    n_features: tuple[int, int, int],
) -> GraphsInParts:
    """Return more labelled graphs in parts, read like those of the fit.

    `columns`, `feature_names` and `n_features` are those of the fit; columns that
    `matchings` names come first.
    """
    named = {"label": matchings} if isinstance(matchings, str) else matchings
    if named is None or isinstance(named, Mapping):
        named = {**(columns or {}), **(named or {})}
    data, _ = _open(graphs, _roles(named, feature_names))
    found = data.outlines[0].n_features
    if found != n_features:
        raise FeatureCountError(
            "all parts must have as many features of edges, left nodes and right nodes as "
            f"the training data, {n_features}; part 0 has {found}."
        )
    return data


def check_more(
    graphs: Any, matchings: Any, feature_names: Any, more: tuple[Any, Any]
) -> None:
    """Refuse tables in parts that a fit to `graphs` could not be judged on, before it."""
    own = roles_of(graphs, _roles(matchings, feature_names))
    columns = {name: getattr(own, name) for name in _COLUMNS}
    names = list(own.features or ())
    open_more(*more, columns, names, (len(names), 0, 0))


def _open(graphs: Any, roles: Roles) -> tuple[GraphsInParts, Roles | None]:
    """Return labelled graphs in parts, and the columns of their table if it is one."""
    opened = open_graphs(graphs, roles, _check_part)
    table = opened.roles
    named = None if table is None else {name: getattr(table, name) for name in _COLUMNS}
    data = GraphsInParts(opened.shards, named)
    first = data.outlines[0].n_features
    for k, own in enumerate(data.outlines):
        if own.n_features != first:
            raise FeatureCountError(
                "all parts must have the same numbers of features of edges, left nodes and "
                f"right nodes; part 0 has {first}, part {k} has {own.n_features}."
            )
    return data, table


def _roles(matchings: Any, feature_names: Any) -> Roles:
    """Return the columns of a table in parts."""
    features = None if feature_names is None else tuple(feature_names)
    columns = {"label": matchings} if isinstance(matchings, str) else matchings
    columns = {} if columns is None else columns
    if isinstance(columns, Mapping):
        unknown = [name for name in columns if name not in _COLUMNS]
        if unknown:
            raise InvalidOptionError(
                "a mapping to names of columns must have no other keys than graph, left, "
                f"right and label; got {', '.join(map(repr, unknown))}."
            )
    else:
        raise InvalidOptionError(
            "for a table in parts, matchings must be the name of the column with the "
            "labels, or a mapping from graph, left, right and label to names of columns; "
            f"got {matchings!r}."
        )
    return replace(ROLES, **columns, features=features)


def _check_part(graphs: Any, matchings: Any) -> tuple[Any, Any]:
    checked = check_graphs(graphs)
    return checked, check_known(checked, matchings)


def _outline(shard: GraphShard) -> Outline:
    graphs, labels = shard.graphs, shard.labels
    n_features = (0, 0, 0)
    if graphs:
        nodes = graphs[0].left_features.shape[1], graphs[0].right_features.shape[1]
        n_features = (graphs[0].n_features, *nodes)
    incomplete = (k for k, known in enumerate(labels) if not known.is_complete)
    open_ = next(incomplete, None)
    return Outline(
        len(graphs),
        n_features,
        frozenset(graph.size for graph in graphs if graph.is_square),
        sum(graph.size for graph in graphs),
        sum(int(known.is_match.sum()) for known in labels),
        _spare(shard),
        None if open_ is None else int(shard.positions[open_]),
        any(known.has_partners for known in labels),
    )


def _spare(shard: GraphShard) -> tuple[int, int, int, int] | None:
    """Return number, sides and most links of a graph that leaves more than it has to."""
    for k, known in enumerate(shard.labels):
        if known.leaves_spare:
            graph, position = shard.graphs[k], int(shard.positions[k])
            return position, graph.n_left, graph.n_right, known.n_most_links
    return None


def data_set(shard: GraphShard, n_graphs: int) -> DataSet:
    """Return the graphs of a shard with their shares of all graphs."""
    return shard.graphs, shard.labels, np.full(len(shard.graphs), 1.0 / n_graphs)


def _arranged(
    shard: GraphShard, parameters: Parameters, n_graphs: int
) -> tuple[int, Arranged]:
    graphs, labels, shares = data_set(shard, n_graphs)
    return shard.number, (arrange(graphs, labels, parameters), shares)


def _second(numbered: tuple[int, Arranged]) -> Arranged:
    return numbered[1]


def _settled(numbered: tuple[int, Arranged], scaling: Scaling) -> tuple[int, Arranged]:
    return numbered[0], settle(numbered[1], scaling)


# ---- judging coefficients


def _modes_of(
    shard: GraphShard, modes: Callable[[Any], list[IntArray]]
) -> tuple[list[IntArray], list[IntArray]]:
    """Return the true and the predicted matchings of a shard."""
    true = [known.matching for known in shard.labels]
    return true, modes(shard.graphs) if true else []


def _log_likelihood_of(
    shard: GraphShard, mean: Callable[[DataSet], float], n_graphs: int
) -> float:
    """Return what a shard adds to the mean log-likelihood."""
    return mean(data_set(shard, n_graphs)) if shard.graphs else 0.0


# ---- predicting


def predict_in_parts(
    model: Any, graphs: Any, predict: Callable[[Any, Any], list[np.ndarray]], dtype: Any
) -> Any:
    """Return what a model says of every pair of a table in parts, like the table.

    `predict` takes a model and graphs to matchings, or to a probability for every edge.
    Of a list of delayed graphs, or of the pairs of a fit, what it says of each is returned,
    delayed.
    """
    if isinstance(graphs, list | tuple):
        call = require("dask", "dask").delayed(_predict_part, pure=False, traverse=False)
        return [call(predict, model, part) for part in graphs]
    names = model.feature_names_
    features = None if names is None else tuple(names)
    roles = replace(_roles(model.columns_, features), has_labels_read=False)
    value = partial(_on_edges, model, predict, dtype)
    return value_pairs(graphs, roles, value, dtype)


def _predict_part(predict: Callable[[Any, Any], Any], model: Any, part: Any) -> Any:
    """Return what a model says of the graphs of a delayed part."""
    is_pair = isinstance(part, tuple | list) and len(part) == 2 and _is_listed(part[0])
    return predict(model, part[0] if is_pair else part)


def _is_listed(value: Any) -> bool:
    """Tell several graphs from one."""
    if not isinstance(value, list | tuple | np.ndarray) or not len(value):
        return False
    return isinstance(value[0], BipartiteGraph) or getattr(value[0], "ndim", 0) == 3


def _on_edges(
    model: Any,
    predict: Callable[[Any, Any], list[np.ndarray]],
    dtype: Any,
    graphs: list[BipartiteGraph],
) -> list[np.ndarray]:
    """Return the probability of every edge, or whether it is in the matching."""
    found = predict(model, graphs)
    if dtype == np.float64:
        return found
    return [
        matching[graph.structure.left] == graph.structure.right
        for graph, matching in zip(graphs, found, strict=True)
    ]
