"""``permatch demo``: a worked example, computed live."""

import math
from collections.abc import Iterable
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

import numpy as np
import typer
from rich.console import Console, RenderableType
from rich.padding import Padding
from rich.rule import Rule
from rich.table import Table
from rich.text import Text

from permatch._files import whole_file
from permatch._progress import progress_bar
from permatch._types import FloatArray
from permatch.cli.shared.options import Jobs, make_folder
from permatch.cli.shared.report import percent
from permatch.cli.shared.terminal import printing

ORDERS = ("a1  Maria Jensen, Lund", "a2  Mia Jensen, Malmo")
NEWSLETTER = ("b1  M. Jensen", "b2  Maria J., Lund")
_LACK = "This part needs scikit-image and matplotlib: pip install 'permatch[vision,plots]'"
PAIR_PROBABILITIES = np.array([[0.95, 0.94], [0.93, 0.01]])


def demo(
    out: Annotated[
        Path,
        typer.Option(
            "--out", "-o", metavar="DIR", help="Folder for the page and its data."
        ),
    ] = Path("permatch-demo"),
    jobs: Jobs = -1,
) -> None:
    r"""Show what a distribution over matchings is good for, and what learning adds.

    First, a small record linkage problem that pairwise rules get wrong.  Then
    permatch learns to match the points of a silhouette, which takes a minute
    or two, and writes a page with figures.  All numbers are computed live.
    The second part needs scikit-image and matplotlib
    (pip install 'permatch\[vision,plots]').

    [bold]Examples[/bold]

      permatch demo
      permatch demo --out demo --jobs 2
    """
    missing = [name for name in ("skimage", "matplotlib") if find_spec(name) is None]
    if not missing:
        make_folder(out)
    odds = PAIR_PROBABILITIES / (1.0 - PAIR_PROBABILITIES)
    scores = np.log(odds)
    _warm_up(scores)
    with printing() as console:
        _linkage(console, scores)
    with printing() as console:
        if missing:
            _heading(console, "2. Image matching: learning to match a horse")
            console.print()
            console.print(Text(_LACK), soft_wrap=True)
        else:
            _horse(console, out, jobs)
        _next_steps(console)


def _warm_up(scores: FloatArray) -> None:
    """Call everything once, so that no kernel is compiled later."""
    import permatch as pm

    distribution = pm.MatchingDistribution(scores)
    distribution.bayes_matching()
    distribution.k_best(1)


def _linkage(console: Console, scores: FloatArray) -> None:
    """Link two customer lists, first pair by pair, then as a whole."""
    import permatch as pm

    _heading(console, "1. Record linkage: two customers in two lists")
    _say(
        console,
        "A shop has a list of orders and a list of newsletter subscribers, with the same "
        "two people on each. A classifier looked at each pair on its own and estimated the "
        "probability that both records are the same person:",
    )
    _show(console, _pair_table(PAIR_PROBABILITIES))

    greedy = _greedy(PAIR_PROBABILITIES)
    mutual = _mutual_best(PAIR_PROBABILITIES)
    rules = Table.grid(padding=(0, 2))
    rules.add_row("greedy", "the best pair, then the best remaining pair", _pairs(greedy))
    rules.add_row("mutual best", "pairs that are each other's best match", _pairs(mutual))
    _say(console, "[bold]Pair by pair.[/bold] The usual rules consider one pair at a time:")
    _show(console, rules)
    last = greedy[-1]
    _say(
        console,
        f"Both choose {_pairs(greedy[:1])}. That leaves {_pairs([last])}, a pair with a "
        f"probability of {percent(PAIR_PROBABILITIES[last])}.",
    )

    distribution = pm.MatchingDistribution(scores)
    _say(
        console,
        "[bold]Jointly.[/bold] There are only two ways to link the lists one-to-one. The "
        "score of a pair is its log-odds, log(p / (1 - p)); the score of a matching is the "
        "sum over its pairs; its probability is proportional to exp(score):",
    )
    best = distribution.k_best(2)
    table = _table("matching", "product of odds", "probability")
    for matching, score in zip(best.matchings, best.scores, strict=True):
        table.add_row(
            _pairs(enumerate(matching)),
            f"{math.exp(score):.2f}",
            percent(math.exp(distribution.log_prob(matching))),
        )
    _show(console, table)
    _say(console, "This gives the probability of each pair in a one-to-one matching:")
    _show(console, _pair_table(distribution.marginals))
    answer = _pairs(enumerate(distribution.bayes_matching()))
    _say(
        console,
        f"[bold green]The answer is {answer}.[/bold green] One strong pair does not make "
        "up for the improbable pair that it leaves.",
    )


def _horse(console: Console, out: Path, jobs: int) -> None:
    """Learn to match the points of sheared silhouettes, and write the page about it."""
    from permatch.pages import demo_learning
    from permatch.pages.demo_page import demo_page, save_picture

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
        file.write(found.to_json())
    demo_page(found).write(page)
    save_picture(found, out / "horse.png")

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
        "seconds. The expected calibration error of the edge probabilities is "
        f"{numbers['calibration_error']:.4f}.",
    )
    _say(console, "The page with all figures:")
    _show(console, _single(str(page)))


def _next_steps(console: Console) -> None:
    _heading(console, "Next steps")
    snippet = """\
import numpy as np, permatch as pm
d = pm.MatchingDistribution(np.log([[19, 15.7], [13.3, 0.01]]))
d.marginals, d.mode(), d.bayes_matching(), d.k_best(2), d.sample(1000, rng=0)"""
    _show(console, Text(snippet, no_wrap=True))
    commands = Table.grid(padding=(0, 3))
    commands.add_row("permatch match --help", "learn from a table of labelled matches")
    commands.add_row("permatch infer scores.csv", "probabilities for a score matrix")
    commands.add_row("permatch engines", "list the inference algorithms")
    commands.add_row("permatch --help", "list all commands")
    _show(console, commands)


def _greedy(probabilities: FloatArray) -> list[tuple[int, int]]:
    """Take the most probable pair, strike out its row and column, and so on."""
    left = probabilities.copy()
    pairs = []
    for _ in range(len(left)):
        row, col = divmod(int(left.argmax()), len(left))
        pairs.append((row, col))
        left[row], left[:, col] = -1.0, -1.0
    return pairs


def _mutual_best(probabilities: FloatArray) -> list[tuple[int, int]]:
    """Keep the pairs in which each is the other's most probable partner."""
    row_of = probabilities.argmax(axis=0)
    col_of = probabilities.argmax(axis=1)
    return [(i, int(j)) for i, j in enumerate(col_of) if row_of[j] == i]


def _pairs(pairs: Iterable[tuple[int, int]]) -> str:
    """Write pairs by the first word of their names."""
    return " and ".join(
        f"{ORDERS[row].split()[0]}-{NEWSLETTER[col].split()[0]}" for row, col in pairs
    )


def _pair_table(probabilities: FloatArray) -> Table:
    table = _table("orders \\ newsletter", *NEWSLETTER)
    for name, chances in zip(ORDERS, probabilities, strict=True):
        cells = [Text(percent(c), style="bold green" if c > 0.5 else "") for c in chances]
        table.add_row(name, *cells)
    return table


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
