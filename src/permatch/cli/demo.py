"""``permatch demo``: a worked example, computed live."""

import math
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console, RenderableType
from rich.padding import Padding
from rich.rule import Rule
from rich.table import Table
from rich.text import Text

from permatch._files import whole_file
from permatch._optional import how_to_install
from permatch._progress import progress_bar
from permatch.cli.shared.options import Jobs, make_folder
from permatch.cli.shared.report import percent
from permatch.cli.shared.terminal import printing

if TYPE_CHECKING:
    from permatch.pages.demo_linking import Linking

_LACK = f"This part needs scikit-image and matplotlib: {how_to_install('vision', 'plots')}"


def demo(
    out: Annotated[
        Path,
        typer.Option(
            "--out", "-o", metavar="DIR", help="Folder for the page and its data."
        ),
    ] = Path("permatch-demo"),
    jobs: Jobs = -1,
) -> None:
    r"""Link the members of two libraries, then learn to match a horse.

    First, two small tables that come with permatch are linked one-to-one.
    Then permatch learns to match the points of a silhouette, which takes a
    minute or two, and writes a page with figures.  All numbers are computed
    live.  The second part needs scikit-image and matplotlib, the
    extras vision and plots (in a clone: pip install '.\[vision,plots]').

    [bold]Examples[/bold]

      permatch demo
      permatch demo --out demo --jobs 2
    """
    missing = [name for name in ("skimage", "matplotlib") if find_spec(name) is None]
    if not missing:
        make_folder(out)
    from permatch.pages import demo_linking

    with printing() as console:
        _heading(console, "1. Record linkage: the members of two libraries")
        _introduce_linking(console)
    with progress_bar("linking", 1, 20.0, None):
        linked = demo_linking.run()
    with printing() as console:
        _linking(console, linked)
    with printing() as console:
        if missing:
            _heading(console, "2. Image matching: learning to match a horse")
            console.print()
            console.print(Text(_LACK), soft_wrap=True)
        else:
            _horse(console, out, jobs, linked)
        _next_steps(console)


def _introduce_linking(console: Console) -> None:
    _say(
        console,
        "Two libraries list their members. Names are misspelt, people have moved, families "
        "share a name and a street, and 30 % of each list are not in the other. A logistic "
        "regression gives every candidate pair a probability of being the same person, one "
        "pair at a time. The first run compiles permatch's kernels, which takes a while.",
    )


def _linking(console: Console, found: "Linking") -> None:
    """Report how the links of two registers came out."""
    n = found.numbers
    _say(
        console,
        f"{n['n_north']} and {n['n_south']} members, {n['n_pairs']:,} candidate pairs, "
        f"{n['n_links']} true links. The same probabilities, used in three ways:",
    )
    table = _table("links", "precision", "recall", "F1", "Brier score")
    for row in found.rows:
        cells = [f"{row[name]:.3f}" for name in ("precision", "recall", "f1")]
        table.add_row(row["method"], *cells, f"{row['brier']:.4f}")
    _show(console, table)
    best, other = found.rows[-1], found.rows[-2]
    _say(
        console,
        f"[bold green]F1 rises from {other['f1']:.3f} to {best['f1']:.3f}, and the Brier "
        f"score falls to {best['brier'] / other['brier']:.2f} of the classifier's."
        "[/bold green] pm.link asks that nobody is linked twice and keeps the expected "
        "number of links. It needs no threshold and no labels; greedy is as good with the "
        "best threshold, which only the true links tell. A link that only pm.link finds "
        "here, and who else the two people could be:",
    )
    table = _table("north", "south", "by itself", "one-to-one", "the truth")
    table.columns[1].justify = table.columns[4].justify = "left"
    for pair in found.example:
        truth = "same person" if pair["is_true"] else "two people"
        cells = percent(pair["pair_probability"]), percent(pair["probability"]), truth
        style = "bold green" if pair["is_true"] else ""
        table.add_row(pair["north"], pair["south"], *cells, style=style)
    _show(console, table)


def _horse(console: Console, out: Path, jobs: int, linked: "Linking") -> None:
    """Learn to match the points of sheared silhouettes, and write the page about it."""
    from permatch.metrics.calibration import PLAUSIBLE
    from permatch.pages import demo_learning
    from permatch.pages.demo_page import demo_page

    setup = demo_learning.SETUP
    _heading(console, "2. Image matching: learning to match a horse")
    _say(
        console,
        f"{setup.n_points} points on the outline of a horse, in {setup.n_images} sheared "
        "copies. Each point is described by its shape context, a histogram of the outline "
        "around it; the features of an edge are the squared differences of two shape "
        "contexts. From labelled pairs, permatch learns one weight per feature by maximum "
        f"likelihood over all {math.factorial(setup.n_points):.2g} matchings of a pair, "
        "with exact gradients.",
    )
    with progress_bar("learning", 1000, 60.0, None) as on_progress:
        found = demo_learning.run(
            setup,
            n_jobs=jobs,
            on_progress=on_progress and (lambda share: on_progress(int(1000 * share))),
        )
    page = out / "index.html"
    with whole_file(out / "demo.json") as file:
        file.write(found.to_json(linking=linked.to_json()))
    demo_page(linked, found).write(page)

    numbers = found.numbers
    table = _table("errors on test pairs", "unweighted", "MAP", "max-margin")
    losses = {(row["n"], row["method"]): row["hamming_loss"] for row in found.rows}
    for n in setup.n_train:
        row = [losses[0, "unweighted"], losses[n, "map"], losses[n, "max_margin"]]
        table.add_row(f"trained on {n} pairs", *(f"{100 * loss:.1f} %" for loss in row))
    _show(console, table)
    _say(
        console,
        f"[bold green]Learning reduces the error from "
        f"{100 * numbers['loss_unweighted']:.0f} % to {100 * numbers['loss_learnt']:.0f} %"
        f"[/bold green] on {numbers['n_test']} test pairs, in {numbers['seconds']:.0f} "
        "seconds. As in the paper, training pairs show the points that are tested on; "
        "trained on other points of the same outline, the error on the same test pairs is "
        f"{100 * numbers['loss_new_landmarks']:.0f} %.",
    )
    _say(
        console,
        f"The {numbers['n_plausible']:,} edges of probability {PLAUSIBLE:g} or more have "
        f"an expected calibration error of {numbers['calibration_error']:.3f}. The most "
        f"probable partner of a point has probability {numbers['confidence']:.3f} on "
        f"average and is right for {numbers['accuracy']:.3f} of the points.",
    )
    _say(console, "The page with all figures:")
    _show(console, _single(str(page)))


def _next_steps(console: Console) -> None:
    _heading(console, "Next steps")
    snippet = """\
import permatch as pm
links = pm.link("pairs.csv", left="a", right="b", probability="p")
links["probability"], links["decision"], links.review(20)"""
    _show(console, Text(snippet, no_wrap=True))
    commands = Table.grid(padding=(0, 3))
    commands.add_row("permatch link --help", "link the pairs of a table one-to-one")
    commands.add_row("permatch match --help", "learn from a table of labelled matches")
    commands.add_row("permatch infer scores.csv", "probabilities for a score matrix")
    commands.add_row("permatch engines", "list the inference algorithms")
    commands.add_row("permatch --help", "list all commands")
    _show(console, commands)


def _table(first: str, *others: str) -> Table:
    table = Table(box=None, header_style="dim", pad_edge=False, padding=(0, 3, 0, 0))
    table.add_column(first)
    for header in others:
        table.add_column(header, justify="right")
    return table


def _single(text: str) -> Table:
    table = Table.grid()
    table.add_row(Text(text, style="bold", no_wrap=True))
    return table


def _heading(console: Console, text: str) -> None:
    title = Text(text, style="bold")
    _say(console, Rule(title, align="left", characters="-", style="dim"))


def _show(console: Console, content: Table | Text) -> None:
    _say(console, Padding(content, (0, 2), expand=False))


def _say(console: Console, content: RenderableType) -> None:
    console.print()
    console.print(content)
