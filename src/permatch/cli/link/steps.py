"""What the commands of ``permatch link`` do: read a table and link its pairs."""

import sys
import warnings
from typing import TYPE_CHECKING, Any

import typer

from permatch.cli.link.options import Linking

if TYPE_CHECKING:
    from permatch.linking import Links


def find_links(table: str, linking: Linking) -> "Links":
    """Link the pairs of a table, and show warnings as single lines."""
    import permatch as pm

    source: Any = sys.stdin if table == "-" else table
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        links = pm.link(
            source,
            left=linking.left,
            right=linking.right,
            probability=linking.probability,
            weight=linking.weight,
            score=linking.score,
            n_jobs=linking.jobs,
        )
    for warning in caught:
        typer.echo(f"warning: {warning.message}", err=True)
    return links
