"""``permatch match show``: a page about the matchings of one graph."""

import warnings
from pathlib import Path
from typing import Annotated, Any

import typer

from permatch.cli.match.options import Columns, Edges, Use
from permatch.cli.match.steps import load_for
from permatch.cli.shared.options import Model, Page, optional
from permatch.cli.shared.steps import (
    check_target,
    nothing_written_if_interrupted,
    refuse_id,
)


def show(
    model_file: Model,
    edges: Edges,
    graph: Annotated[
        str | None,
        optional(
            "--graph",
            "-g",
            metavar="ID",
            help="The graph; optional if the table has only one.",
        ),
    ] = None,
    out: Page = Path("match.html"),
    k: Annotated[
        int,
        typer.Option("--k", "-k", min=1, max=1000, help="Most probable matchings to list."),
    ] = 10,
    *,
    use: Use,
    columns: Columns,
) -> None:
    """Write a page about the matchings of one graph.

    Open it in a browser; it needs no network.  It draws the two sides and the
    edges above a probability you choose, compares the likeliest matching with
    the one with the fewest expected errors, shows all probabilities as a heat
    map and lists the k best matchings.  Select an edge by mouse or keyboard to
    see its features and what each adds to the score.  Labels are marked.

    [bold]Examples[/bold]

      permatch match show model.json test.csv --graph monday
      permatch match show model.json test.csv -g monday --out monday.html -k 25
    """
    read_as = columns.read_as("optional")
    with nothing_written_if_interrupted():
        check_target(out, "--out", edges, str(model_file))
        model, table = load_for(model_file, edges, read_as, use)
        place = find_id(graph, [str(name) for name in table.graph_ids], edges)
        from permatch.pages.match_explorer import MatchView, match_page

        view = MatchView(
            name=str(table.graph_ids[place]),
            left=_names(table.left_ids[place], table.graphs[place].size),
            right=_names(table.right_ids[place], table.graphs[place].size),
            features=table.feature_names,
            coef=model.coef_,
            graph=table.graphs[place],
            distribution=model.distribution(table.graphs[place]),
            truth=None if table.matchings is None else table.matchings[place],
            n_best=k,
            model=type(model).__name__,
        )
        with warnings.catch_warnings():  # the page says itself how good they are
            warnings.simplefilter("ignore", RuntimeWarning)
            page = match_page(view)
        page.write(out)
        kind = "exact" if view.distribution.is_exact else "approximate"
        typer.echo(
            f"wrote {out}: graph {view.name}, {' x '.join(map(str, view.graph.n_sides))} "
            f"nodes, {kind} probabilities. Open it in a browser."
        )


def _names(ids: list[Any], size: int) -> list[str]:
    """Return a name for every node of a side; dummy nodes are nobody."""
    extra = [f"(nobody {k})" for k in range(1, size - len(ids) + 1)]
    return [*map(str, ids), *extra]


def find_id(wanted: str | None, names: list[str], source: str) -> int:
    """Return the place of the graph called `wanted`, or of the only one."""
    if wanted is None and len(names) == 1:
        return 0
    if wanted not in names:
        refuse_id("--graph", wanted, names, f"{source} has no graph")
    return names.index(str(wanted))
