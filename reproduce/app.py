"""``python -m reproduce``: the paper's experiments, from data to figure."""

from typing import Any

import typer

from permatch.cli.shared.terminal import Command, Group
from reproduce.commands.alpha import alpha
from reproduce.commands.everything import everything
from reproduce.commands.house import house
from reproduce.commands.house_protocols import house_protocols
from reproduce.commands.linking import linking
from reproduce.commands.neural import neural
from reproduce.commands.positions import positions
from reproduce.commands.ranking import ohsumed, ohsumed_sample_size, runtime
from reproduce.commands.relevance import relevance
from reproduce.commands.silhouettes import silhouettes
from reproduce.commands.tracking import tracking
from reproduce.commands.trees import trees

PROGRAM = "python -m reproduce"


class Experiments(Group):
    """A group whose default command is ``all``."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Read the command line."""
        is_named = not args or not args[0].startswith("-") or args[0] in ("-h", "--help")
        return super().parse_args(ctx, args if is_named else ["all", *args])


app = typer.Typer(
    name="reproduce",
    cls=Experiments,
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


@app.callback(
    epilog="Exit status: 0 success, 1 error (one line on standard error), 2 wrong usage, "
    "130 interrupted."
)
def reproduce() -> None:
    """Repeat the experiments of the paper, and those beyond it.

    The silhouettes and the network need no data.  The house experiment needs the CMU House
    frames, linking the tables of DBLP-ACM, tracking the boxes of TUD-Campus,
    the others the LETOR folders.  Set their location with --data DIR or the
    environment variable PERMATCH_DATA.  The default command is all.

    [bold]Examples[/bold]

      python -m reproduce --quick               all experiments with data, minutes
      python -m reproduce all --help            options and output of a full run
      python -m reproduce house --data ~/data   one experiment

    In a clone, 'make reproduce DATA=DIR' does the same, with QUICK=1 for the
    small experiments and ONLY=house for one of them.
    """


app.command("all", cls=Command)(everything)
app.command(cls=Command)(silhouettes)
app.command(cls=Command)(house)
app.command("house-protocols", cls=Command)(house_protocols)
app.command(cls=Command)(linking)
app.command(cls=Command)(tracking)
app.command(cls=Command)(alpha)
app.command(cls=Command)(neural)
app.command(cls=Command)(trees)
app.command(cls=Command)(positions)
app.command(cls=Command)(relevance)
app.command(cls=Command)(ohsumed)
app.command("ohsumed-sample-size", cls=Command)(ohsumed_sample_size)
app.command(cls=Command)(runtime)
