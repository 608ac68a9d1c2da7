"""What the commands of ``permatch link`` do: read a table and link its pairs."""

import warnings
from typing import TYPE_CHECKING

import typer

from permatch.cli.link.options import Linking
from permatch.cli.shared.steps import load_kind, noticing_ctrl_c, table_source

if TYPE_CHECKING:
    from permatch.linking import Links


def find_links(table: str, linking: Linking) -> "tuple[Links, bool]":
    """Link the pairs of a table, and show warnings as single lines.

    Return the links, and whether Ctrl-C has cut short what more time might have decided.
    """
    source = table_source(table, "a table of pairs")
    import permatch as pm
    from permatch.estimators import BaseMatcher

    model = None if linking.model is None else load_kind(linking.model, BaseMatcher)
    with noticing_ctrl_c() as presses, warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        links = pm.link(
            source,
            left=linking.left,
            right=linking.right,
            probability=linking.probability,
            weight=linking.weight,
            score=linking.score,
            model=model,
            expected_links=linking.number(),
            costs=linking.costs(),
            capacity_left=linking.capacity_left,
            capacity_right=linking.capacity_right,
            tol=linking.tol,
            budget=linking.budget,
            n_jobs=linking.jobs,
        )
    for message in dict.fromkeys(str(warning.message) for warning in caught):
        message = message.replace("set expected_links=", "set --expected-links")
        typer.echo(f"warning: {' '.join(message.split())}", err=True)
    return links, bool(presses)
