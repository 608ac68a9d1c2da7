"""``permatch link show``: a page about links and how certain they are."""

from pathlib import Path
from typing import Annotated

import typer

from permatch.cli.link.options import Linking, Table
from permatch.cli.link.steps import find_links
from permatch.cli.shared.options import Page, optional
from permatch.cli.shared.steps import (
    check_target,
    load_kind,
    nothing_written_if_interrupted,
    refuse_id,
)


def show(
    table: Table,
    out: Page = Path("link.html"),
    node: Annotated[
        str | None,
        optional(
            "--node", "-n", metavar="ID", help="Show only what depends on this record."
        ),
    ] = None,
    k: Annotated[
        int,
        typer.Option("--k", "-k", min=1, max=1000, help="Most probable sets of links."),
    ] = 10,
    *,
    linking: Linking,
) -> None:
    """Write a page about the links of a table and how certain they are.

    Open it in a browser; it needs no network.  It lists the groups of records
    that compete for partners, the least certain first.  An open group is drawn
    with its records, each with the probability of having no partner, and its
    pairs; below stand their probabilities, one-to-one and by themselves, their
    decisions, and the most probable sets of links.  Select a pair to see what
    its score is made of, with --model what each feature adds.  Of a table too
    large for a page it shows the uncertain part and says what is left out.

    [bold]Examples[/bold]

      permatch link show pairs.csv
      permatch link show pairs.csv --left id_a --right id_b --out link.html
      permatch link show pairs.csv --node a17
    """
    with nothing_written_if_interrupted():
        check_target(out, "--out", table, linking.model and str(linking.model))
        links, _ = find_links(table, linking)
        from permatch.estimators import BaseMatcher
        from permatch.pages.links_view import links_view
        from permatch.pages.match_explorer import write_match_page

        model = None
        if linking.model is not None and table != "-":  # which is read only once
            model = load_kind(linking.model, BaseMatcher)
        source = "" if table == "-" else Path(table).name
        view = links_view(
            links, model=model, pairs=table, n_best=k, node=node, source=source
        )
        if view.only is not None and not len(view.only):
            every = sorted({*view.left, *view.right})
            refuse_id("--node", node, every, "the table has no record")
        typer.echo(f"wrote {out}: {write_match_page(view, out)}. Open it in a browser.")
