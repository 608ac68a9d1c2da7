"""What the commands of ``permatch match`` do: read a table, load, decide."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import typer

from permatch._types import FloatArray, IntArray
from permatch.cli.match.options import Columns, Decision, Use
from permatch.cli.shared.options import Elsewhere
from permatch.cli.shared.report import plural
from permatch.cli.shared.steps import load_kind, refuse_folder, table_source
from permatch.errors import (
    FeatureCountError,
    InfeasibleGraphError,
    InvalidOptionError,
    SizeLimitError,
)

if TYPE_CHECKING:
    from permatch.datasets import EdgeTable
    from permatch.estimators import BaseMatcher


def read_table(
    edges: str, columns: dict[str, Any], feature_names: list[str] | None = None
) -> "EdgeTable":
    """Read a table, its features in the order of `feature_names`."""
    refuse_folder(edges)
    source = table_source(edges, "a table of pairs")
    from permatch.datasets import read_edge_table

    table = read_edge_table(source, **columns)
    if table.ignored:
        names = ", ".join(table.ignored)
        typer.echo(f"note: ignored columns of {edges} without numbers: {names}", err=True)
    if feature_names is None:
        return table
    try:
        return table.arrange_features(feature_names)
    except FeatureCountError as err:
        raise FeatureCountError(f"{edges}: {err}") from err


def divide(
    table: "EdgeTable", n_folds: int, *, has_entities: bool = False
) -> "tuple[EdgeTable, str]":
    """Return a table to make folds of, and what its parts are called.

    One with fewer graphs than folds is divided into its connected components.  If these are
    too few as well, a single graph is left whole for those who split it by entity.
    """
    if len(table.graphs) >= n_folds:
        return table, "graphs"
    parts = table.split_components()
    if has_entities and len(parts.graphs) < n_folds and len(table.graphs) == 1:
        return table, "entities"
    return parts, "components"


def check_order(n_graphs: int, n_folds: int) -> None:
    """Refuse folds in order that are too many: the first graphs only train."""
    if n_folds >= n_graphs:
        raise InvalidOptionError(
            f"--in-order needs more graphs than --folds; the table has {n_graphs} graphs, "
            f"for {n_folds} folds. Use fewer folds, or a column that divides the table "
            "into graphs."
        )


def count_parts(table: "EdgeTable", things: str) -> tuple[int, str]:
    """Return how many folds a table can have at most, and of what."""
    if things != "entities":
        return len(table.graphs), things
    from permatch.labels import check_known

    (known,) = check_known(table.graphs, table.matchings)
    return int(known.is_match.sum()), "pairs that match"


def note_parts(table: "EdgeTable", things: str) -> None:
    """Say so if the folds are made of components, or of entities."""
    if things == "entities":
        typer.echo(
            "note: fewer graphs and components than folds; the folds are made of nodes, "
            "matched ones together, and pairs between folds are left out",
            err=True,
        )
    if things == "components":
        typer.echo(
            f"note: fewer graphs than folds; the folds are made of the "
            f"{len(table.graphs)} components of the graph, which are independent",
            err=True,
        )


def columns_of(table: "EdgeTable", columns: dict[str, Any]) -> dict[str, str | None]:
    """Return the columns of a table, as kept in the model file."""
    graph = table.id_columns[0] if len(table.id_columns) == 3 else None
    return {"graph": graph} | {role: columns[role] for role in ("left", "right", "label")}


def find_parts(
    folder: str, read_as: dict[str, Any], elsewhere: Elsewhere
) -> tuple[Any, dict[str, str]]:
    """Return pairs that do not fit in memory, and their columns."""
    source: Any = folder
    if elsewhere.dask is not None:
        from permatch.distributed.dask_frames import read_frame

        source = read_frame(folder)
    roles = ("graph", "left", "right", "label")
    names = {role: name for role in roles if (name := read_as[role]) is not None}
    return source, names


def check_held_out(
    source: Any,
    names: dict[str, str],
    held_out: tuple[Any, Any],
    feature_names: list[str] | None,
) -> None:
    """Refuse pairs that a fit is to be measured on, and cannot be, before the fit."""
    from permatch.estimators.matching_parts import check_more

    check_more(source, names, feature_names, held_out)


def load_for(
    path: Path, edges: str, columns: Columns, labels: str, use: Use
) -> "tuple[BaseMatcher, EdgeTable]":
    """Read a model and a table to use it on, columns found by the names in the model."""
    from permatch.estimators import BaseMatcher

    model = load_kind(path, BaseMatcher)
    model.n_jobs = use.jobs
    if use.engine is not None:
        model.engine = use.engine
    read_as = columns.read_as(labels, getattr(model, "columns_", None))
    names = model.feature_names_
    if names is not None and read_as["features"] is None:
        read_as["features"] = names  # other columns may be there
    return model, read_table(edges, read_as, names)


def pair_probabilities(model: "BaseMatcher", table: "EdgeTable") -> list[FloatArray]:
    """Return the probability of every candidate pair of every graph."""
    with advice(table):
        return model.predict_marginals(table.graphs)


def pair_intervals(
    model: "BaseMatcher", table: "EdgeTable"
) -> list[tuple[FloatArray, FloatArray]]:
    """Return the ends of the intervals of all pairs, then nodes, of every graph."""
    posterior = getattr(model, "posterior_", None)
    if posterior is None:
        raise typer.BadParameter(
            "--intervals needs a model that knows how sure its weights are; this one does "
            "not. Fit it with --inference sandwich."
        )
    with advice(table):
        found = cast("Any", model).predict_marginals(table.graphs, uncertainty=posterior)
    sides = [(one, one.unmatched_left, one.unmatched_right) for one in found]
    return [
        (
            np.concatenate([own.low for own in parts]),
            np.concatenate([own.high for own in parts]),
        )
        for parts in sides
    ]


@contextmanager
def advice(table: "EdgeTable") -> Iterator[None]:
    """Name the options that help, and nodes by their ids."""
    try:
        yield
    except SizeLimitError as err:
        raise SizeLimitError(
            f"{err} On the command line, --no-probabilities finds only the best matching."
        ) from err
    except InfeasibleGraphError as err:
        raise InfeasibleGraphError(_lack_of_partners(table) or str(err)) from err


def _lack_of_partners(table: "EdgeTable") -> str:
    """Say which graph of a table cannot be matched, and one of its nodes left over."""
    from permatch.labels import check_known

    for g, graph in enumerate(table.graphs):
        (known,) = check_known([graph], [np.full(graph.n_left, -2)])
        if not known.leaves_spare:
            continue
        n, k = graph.n_left, graph.n_right
        name = "the table" if table.graph_ids[g] is None else f"graph {table.graph_ids[g]}"
        side, ids = ("left", table.left_ids[g]) if n <= k else ("right", table.right_ids[g])
        spare = known.largest_matching
        is_taken = spare >= 0 if n <= k else np.isin(np.arange(k), spare)
        node = ids[int(np.argmin(is_taken))]
        return (
            f"by this model every {side} node must be matched (unmatched='larger'); of "
            f"{name} at most {known.n_most_links} of {min(n, k)} can be, which leaves over "
            f"{node}, for example. List more pairs, or fit with --unmatched any "
            "(unmatched='any')."
        )
    return ""


def decide(
    model: "BaseMatcher",
    table: "EdgeTable",
    chances: list[FloatArray] | None,
    decision: Decision,
) -> list[IntArray]:
    """Return one matching per graph, from probabilities if they are given."""
    if decision.threshold is not None and chances is not None:
        return _links_above(table, chances, decision.threshold)
    if decision.decode == "mode" or chances is None:
        with advice(table):
            return model.predict(table.graphs)
    from permatch.decoding import bayes_matching
    from permatch.scores import EdgeScores

    edges, alone = [], ([], [])
    for graph, values in zip(table.graphs, chances, strict=True):
        sides = (graph.structure.left, graph.n_left), (graph.structure.right, graph.n_right)
        edges.append(EdgeScores(sides[0][0], sides[1][0], values, *(n for _, n in sides)))
        for found, (ends, n_nodes) in zip(alone, sides, strict=True):
            found.append(np.clip(1.0 - np.bincount(ends, values, n_nodes), 0.0, 1.0))
    free = model.unmatched_ == "any"
    return bayes_matching(
        edges,
        unmatched_left=alone[0] if free else None,
        unmatched_right=alone[1] if free else None,
        costs=decision.costs(),
    )


def _links_above(
    table: "EdgeTable", chances: list[FloatArray], threshold: float
) -> list[IntArray]:
    """Return the links of at least some probability, and say how good they should be."""
    from permatch.estimators.links import link_table

    links = link_table(table.graphs, chances, threshold)
    matchings = [np.full(graph.n_left, -1, dtype=np.intp) for graph in table.graphs]
    taken: set[tuple[int, int]] = set()
    for g, i, j in zip(
        links["graph"].tolist(),
        links["left"].tolist(),
        links["right"].tolist(),
        strict=True,
    ):
        # The most probable link of a node counts; two are there by a tie or by noise.
        if matchings[g][i] < 0 and (g, j) not in taken:
            matchings[g][i] = j
            taken.add((g, j))
    n_links = len(links["graph"])
    if n_links:
        typer.echo(
            f"note: {plural(n_links, 'link')}, expected precision "
            f"{links['precision'][-1]:.4f}, recall {links['recall'][-1]:.4f}",
            err=True,
        )
    return matchings
