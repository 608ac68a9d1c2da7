"""``permatch reproduce``: the paper's experiments, from data to figure."""

import typer

from permatch.cli.reproduce_all import everything
from permatch.cli.reproduce_house import house
from permatch.cli.reproduce_ranking import ohsumed, ohsumed_sample_size, runtime
from permatch.cli.reproduce_silhouettes import silhouettes
from permatch.cli.terminal import Command, Group

app = typer.Typer(
    name="reproduce",
    cls=Group,
    no_args_is_help=True,
    rich_markup_mode="rich",
)


@app.callback()
def reproduce() -> None:
    """Repeat the experiments of the paper, one by one or all on one page.

    Silhouettes need no data.  The house needs the frames of the CMU House,
    the others LETOR's folders: say where they are with --data DIR or the
    environment variable PERMATCH_DATA.
    """


app.command("all", cls=Command)(everything)
app.command(cls=Command)(silhouettes)
app.command(cls=Command)(house)
app.command(cls=Command)(ohsumed)
app.command("ohsumed-sample-size", cls=Command)(ohsumed_sample_size)
app.command(cls=Command)(runtime)
