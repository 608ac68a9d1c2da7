"""``permatch link``: links from a table of scored pairs, and the commands beside it."""

from pathlib import Path
from typing import Annotated, Any

import typer

from permatch.cli.link.options import Linking, Table
from permatch.cli.link.show import show
from permatch.cli.link.steps import find_links
from permatch.cli.shared.options import optional, spread
from permatch.cli.shared.steps import check_target, nothing_written_if_interrupted
from permatch.cli.shared.terminal import Command, Group, add, new_group, standard_output

#: The command that ``permatch link`` runs if none is named.
_DEFAULT = "pairs"


class DefaultGroup(Group):
    """A group whose first argument may be a table instead of a command."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Read the command line."""
        if not args or args[0] not in self.commands:
            args = [_DEFAULT, *(args or ["--help"])]
        return super().parse_args(ctx, args)


class DefaultCommand(Command):
    """The command of a group that is run by the name of the group alone."""

    def make_context(
        self, info_name: Any, args: list[str], *others: Any, **more: Any
    ) -> Any:
        """Prepare to run, under the name of the group."""
        parent = more.get("parent")
        if parent is not None and parent.parent is not None:
            info_name, more["parent"] = parent.info_name, parent.parent
        return super().make_context(info_name, args, *others, **more)


link = new_group()


def pairs(
    table: Table,
    out: Annotated[
        Path | None,
        optional(
            "--out", "-o", metavar="FILE", help="Output file. Default: standard output."
        ),
    ] = None,
    *,
    linking: Linking,
) -> None:
    """Link the records of two tables one-to-one, from scored pairs.

    Every row of the table is a pair of records that may belong together, with
    the probability that a linker or a classifier gave it.  Written are the
    probability if no record has two partners, and a decision for every pair.

    [bold]Examples[/bold]

      permatch link pairs.csv --out links.csv
      permatch link pairs.csv --left id_a --right id_b --probability p -o links.csv
      permatch link show pairs.csv --out links.html
    """
    with nothing_written_if_interrupted():
        if out is not None:
            check_target(out, "--out", table)
        links = find_links(table, linking)
        links.write(standard_output() if out is None else out)
        typer.echo(links.summary(), err=True)


link.command(cls=DefaultCommand)(spread(pairs))
add(link, show)
