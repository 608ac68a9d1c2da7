"""What the commands of ``permatch link`` do: read a table and link its pairs."""

import re
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from permatch.cli.link.options import Linking
from permatch.cli.shared.steps import load_kind, noticing_ctrl_c, table_source
from permatch.cli.shared.terminal import INTERRUPTED

if TYPE_CHECKING:
    from permatch.linking import Links

# An argument, and its value where there is one.
_ARGUMENT = re.compile(
    rf"\b({'|'.join(option.name for option in fields(Linking))})=('[^']*'|[\w.]*\w)?"
)


def find_links(
    table: str, linking: Linking, *, out: Path | None = None, is_on_dask: bool = False
) -> "tuple[Links, bool]":
    """Link the pairs of a table, and show warnings as single lines.

    With `out` they are linked in parts, on Dask if asked for, and written to this folder.
    Return the links, and whether Ctrl-C has cut short what more time might have decided.
    """
    source = table_source(table, "a table of pairs")
    if is_on_dask:
        from permatch.distributed.dask_frames import read_frame

        source = read_frame(table)
    import permatch as pm
    from permatch.estimators import BaseMatcher

    model = None if linking.model is None else load_kind(linking.model, BaseMatcher)
    with (
        _options_named(),
        noticing_ctrl_c() as presses,
        warnings.catch_warnings(record=True) as caught,
    ):
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
            out=out,
        )
    for message in dict.fromkeys(str(warning.message) for warning in caught):
        typer.echo(f"warning: {' '.join(as_options(message).split())}", err=True)
    return links, bool(presses)


@contextmanager
def going_on_if_interrupted(out: Path) -> Iterator[None]:
    """On Ctrl-C, say how to go on and exit."""
    try:
        yield
    except KeyboardInterrupt:
        typer.echo(
            f"interrupted; what is done is kept in {out}. Run the same command again to go "
            "on.",
            err=True,
        )
        raise typer.Exit(INTERRUPTED) from None


def as_options(message: str) -> str:
    """Write the arguments of `permatch.link` in a message as options."""
    return _ARGUMENT.sub(
        lambda found: f"--{found[1].replace('_', '-')}{f' {found[2]}' if found[2] else ''}",
        message,
    )


@contextmanager
def _options_named() -> Iterator[None]:
    """Have errors name options instead of arguments."""
    from permatch.errors import PermatchError

    try:
        yield
    except PermatchError as err:
        err.args = tuple(as_options(str(arg)) for arg in err.args)
        raise
