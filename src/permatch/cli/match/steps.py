"""What the commands of ``permatch match`` do: read a table, load, decode."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from permatch._types import FloatArray, IntArray
from permatch.cli.match.options import Use
from permatch.cli.shared.steps import load_kind
from permatch.errors import FeatureCountError, SizeLimitError, TableError

if TYPE_CHECKING:
    from permatch.datasets import EdgeTable
    from permatch.estimators import BaseMatcher


def read_table(
    edges: str, columns: dict[str, Any], feature_names: list[str] | None = None
) -> "EdgeTable":
    """Read a table, its features in the order of `feature_names`."""
    from permatch.datasets import read_edge_table

    source: Any = edges
    if edges == "-":
        source = sys.stdin
        if source is None:
            raise TableError(
                "standard input must hold a table of edges; it is closed. Pipe in a table, "
                "or name a file instead of -."
            )
        source.reconfigure(encoding="utf-8-sig", newline="")
    table = read_edge_table(source, **columns)
    if table.ignored:
        names = ", ".join(table.ignored)
        typer.echo(f"note: ignored columns of {edges} without numbers: {names}", err=True)
    if n_unequal := sum(graph.n_extra > 0 for graph in table.graphs):
        typer.echo(
            f"note: {n_unequal} of {len(table.graphs)} graphs of {edges} have sides of "
            "different sizes: on the larger one some nodes stay unmatched",
            err=True,
        )
    if feature_names is None:
        return table
    try:
        return table.arrange_features(feature_names)
    except FeatureCountError as err:
        raise FeatureCountError(f"{edges}: {err}") from err


def load_for(
    path: Path, edges: str, columns: dict[str, Any], use: Use
) -> "tuple[BaseMatcher, EdgeTable]":
    """Read a model and a table to use it on, features matched by name."""
    from permatch.estimators import BaseMatcher

    model = load_kind(path, BaseMatcher)
    model.n_jobs = use.jobs
    if use.engine is not None:
        model.engine = use.engine
    names = model.feature_names_
    if names is not None and columns["features"] is None:
        columns = columns | {"features": names}  # other columns may be there
    return model, read_table(edges, columns, names)


def edge_probabilities(model: "BaseMatcher", table: "EdgeTable") -> list[FloatArray]:
    """Return the marginals of every graph."""
    try:
        return model.predict_marginals(table.graphs)
    except SizeLimitError as err:
        raise SizeLimitError(
            f"{err} On the command line, --no-probabilities finds only the best matching."
        ) from err


def decode_matchings(
    model: "BaseMatcher",
    table: "EdgeTable",
    chances: list[FloatArray] | None,
    decode: str,
) -> list[IntArray]:
    """Return one matching per graph, from marginals if they are given."""
    from permatch.decoding import bayes_matching

    if decode == "bayes" and chances is not None:
        return [
            bayes_matching(graph.weigh_extra(marginals), graph.allowed)
            for marginals, graph in zip(chances, table.graphs, strict=True)
        ]
    return model.predict(table.graphs)
