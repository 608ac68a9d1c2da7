"""``permatch rank show``: a page about one ranked list."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import numpy as np
import typer

from permatch._types import FloatArray, IntArray
from permatch.cli.rank.options import Judged
from permatch.cli.rank.steps import load_ranker, stream_scores
from permatch.cli.shared.options import Model, Page, optional
from permatch.cli.shared.steps import (
    check_target,
    nothing_written_if_interrupted,
    refuse_id,
)

if TYPE_CHECKING:
    from permatch.estimators import BaseRanker


def show(
    model_file: Model,
    file: Judged,
    query: Annotated[
        str | None,
        optional(
            "--query",
            "-q",
            metavar="ID",
            help="The query; optional if the file has only one.",
        ),
    ] = None,
    out: Page = Path("rank.html"),
) -> None:
    """Write a page that shows how a query's documents are ranked, and why.

    Open it in a browser; it needs no network.  It shows the scores, the
    probability of every rank (only rankmatch models), and for the document
    selected by mouse or keyboard which features moved it up or down from the
    mean of the list.

    [bold]Examples[/bold]

      permatch rank show model.json test.txt --query 76
      permatch rank show model.json test.txt -q 76 --out query-76.html
    """
    with nothing_written_if_interrupted():
        check_target(out, "--out", file, str(model_file))
        model = load_ranker(model_file)
        name, documents, values, grades = _find_query(file, model, query)
        from permatch.pages.rank_explorer import rank_page, rank_view

        view = rank_view(name, documents, values, grades, model)
        rank_page(view).write(out)
        law = view.distribution
        kind = "scores only"
        if law is not None:
            kind = f"{'exact' if law.is_exact else 'approximate'} probabilities"
        typer.echo(
            f"wrote {out}: query {name}, {len(documents)} documents, {kind}. Open it in a "
            "browser."
        )


def _find_query(
    file: str, model: "BaseRanker", query: str | None
) -> tuple[str, list[str], FloatArray, IntArray]:
    """Read as far as the query: its id, and names, features, grades of its documents."""
    from permatch.datasets.runs import document_names

    names: dict[str, None] = {}
    found = None
    for block in stream_scores(file, [model]):
        qids = [str(name) for name in block.data.qid.tolist()]
        names |= dict.fromkeys(qids)
        if query is None and len(names) > 1:
            break
        wanted = next(iter(names)) if query is None else query
        rows = np.flatnonzero([name == wanted for name in qids])
        if len(rows):
            called = document_names(block)
            documents = [called[row] for row in rows]
            found = wanted, documents, block.data.X[rows], block.data.y[rows]
            if query is not None:
                return found
    if found is None or len(names) > 1:
        refuse_id("--query", query, list(names), f"{file} has no query")
    return found
