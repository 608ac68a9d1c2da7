"""``permatch demo``: a worked example, computed as it is shown."""

import math
import time
from collections.abc import Iterable

import numpy as np
from rich.console import Console
from rich.padding import Padding
from rich.rule import Rule
from rich.table import Table
from rich.text import Text

from permatch._types import FloatArray, IntArray
from permatch.cli.infer import marginals_table
from permatch.cli.terminal import one_line_errors, percent, printing

ORDERS = ("a1  Maria Jensen, Lund", "a2  Mia Jensen, Malmo")
NEWSLETTER = ("b1  M. Jensen", "b2  Maria J., Lund")
PAIR_PROBABILITIES = np.array([[0.95, 0.94], [0.93, 0.01]])

N_PLAYERS = 12
N_SAMPLES = 100_000


def demo() -> None:
    """Show on two small graphs what a distribution over matchings is good for.

    First a puzzle of record linkage that pair-by-pair rules get wrong, then a
    graph with half a billion matchings, summed up exactly.  Every number is
    computed as you watch.
    """
    with one_line_errors(debug=False), printing() as console:
        odds = PAIR_PROBABILITIES / (1.0 - PAIR_PROBABILITIES)
        scores = np.log(odds), _player_scores()
        _warm_up(scores)
        _linkage(console, scores[0])
        _players(console, scores[1])
        _next_steps(console)


def _warm_up(graphs: Iterable[FloatArray]) -> None:
    """Ask every kind of question once, so that no kernel is left to compile later."""
    import permatch as pm

    for scores in graphs:
        distribution = pm.MatchingDistribution(scores)
        distribution.bayes_matching()
        distribution.k_best(1)
        distribution.sample(1, rng=0)


def _linkage(console: Console, scores: FloatArray) -> None:
    """Link two customer lists, first pair by pair, then as a whole."""
    import permatch as pm

    _heading(console, "1. Who is who? Two customers, two lists, one-to-one")
    _say(
        console,
        "A shop has a list of orders and a list of newsletter readers, with the same two "
        "people on each. A model has looked at every pair by itself and says how probable "
        "it is that both records are one person:",
    )
    _show(console, _pair_table(PAIR_PROBABILITIES))

    greedy = _greedy(PAIR_PROBABILITIES)
    mutual = _mutual_best(PAIR_PROBABILITIES)
    rules = Table.grid(padding=(0, 2))
    rules.add_row("greedy", "the best pair, then the best of what is left", _pairs(greedy))
    rules.add_row("mutual best", "pairs that prefer each other", _pairs(mutual))
    _say(console, "[bold]Pair by pair.[/bold] The usual rules look at one pair at a time:")
    _show(console, rules)
    last = greedy[-1]
    _say(
        console,
        f"Both keep {_pairs(greedy[:1])}. That leaves {_pairs([last])}, a pair the model "
        f"gives {percent(PAIR_PROBABILITIES[last])}.",
    )

    distribution = pm.MatchingDistribution(scores)
    _say(
        console,
        "[bold]As a whole.[/bold] There are only two ways to link the lists one-to-one. "
        "The score of a pair is its log-odds, log(p / (1 - p)), the score of a matching is "
        "the sum, and the probability of a matching is proportional to exp(score):",
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
    _say(console, "Hence, pair by pair again, but now linked one-to-one:")
    _show(console, _pair_table(distribution.marginals))
    answer = _pairs(enumerate(distribution.bayes_matching()))
    _say(
        console,
        f"[bold green]So it is {answer}.[/bold green] One strong pair is not worth the "
        "impossible one it forces on the others.",
    )


def _players(console: Console, scores: FloatArray) -> None:
    """Show every kind of answer on a graph with 12! matchings."""
    import permatch as pm

    start = time.perf_counter()
    distribution = pm.MatchingDistribution(scores)
    log_partition, marginals = distribution.log_partition, distribution.marginals
    seconds = time.perf_counter() - start

    _heading(console, f"2. {N_PLAYERS} players in two frames of a film")
    _say(
        console,
        "Player k of the first frame is player k of the second, but all we see is where "
        "they stand, and they have run. The score of a pair is minus half its squared "
        f"distance. There are {math.factorial(N_PLAYERS):,} matchings; engine "
        f"{distribution.diagnostics.engine} summed them all in {1e3 * seconds:.1f} ms. "
        "Probability of each pair in percent, first frame down, second frame across:",
    )
    _show(console, marginals_table(marginals, None, None))

    mode, bayes = distribution.mode(), distribution.bayes_matching()
    samples = distribution.sample(N_SAMPLES, rng=0)
    n_mode = int((samples == mode).all(axis=1).sum())
    rows = np.arange(N_PLAYERS)
    facts = Table.grid(padding=(0, 2))
    facts.add_column(style="bold", no_wrap=True)
    facts.add_column()
    facts.add_row("log-partition", f"{log_partition:.6f}")
    facts.add_row(
        "entropy",
        f"{distribution.entropy:.3f} nats, as of {math.exp(distribution.entropy):.0f} "
        "equally probable matchings",
    )
    for rank, matching in enumerate(distribution.k_best(3).matchings, start=1):
        chance = percent(math.exp(distribution.log_prob(matching)))
        facts.add_row(f"best matching {rank}", f"{_columns(matching)}  {chance}")
    facts.add_row("Bayes matching", _columns(bayes))
    facts.add_row(
        "right on average",
        f"{marginals[rows, bayes].sum():.2f} edges of the Bayes matching, "
        f"{marginals[rows, mode].sum():.2f} of the best one",
    )
    chance = math.exp(distribution.log_prob(mode))
    spread = math.sqrt(N_SAMPLES * chance * (1.0 - chance))
    facts.add_row(
        f"{N_SAMPLES:,} samples",
        f"best matching 1 drawn {n_mode} times, {N_SAMPLES * chance:.0f} +- {spread:.0f} "
        "expected",
    )
    _show(console, facts)


def _next_steps(console: Console) -> None:
    _heading(console, "What next")
    snippet = """\
import numpy as np, permatch as pm
d = pm.MatchingDistribution(np.log([[19, 15.7], [13.3, 0.01]]))
d.marginals, d.mode(), d.bayes_matching(), d.k_best(2), d.sample(1000, rng=0)"""
    console.print()
    console.print(Padding(Text(snippet, no_wrap=True), (0, 2), expand=False))
    commands = Table.grid(padding=(0, 3))
    commands.add_row("permatch infer scores.csv", "the same for a matrix of your own")
    commands.add_row("permatch engines", "the algorithms to choose from")
    commands.add_row("permatch --help", "all commands")
    _show(console, commands)


def _player_scores() -> FloatArray:
    """Return the scores of players who all moved by a random step of about one metre."""
    rng = np.random.default_rng(38)
    before = rng.uniform(0.0, 8.0, size=(N_PLAYERS, 2))
    after = before + rng.normal(size=(N_PLAYERS, 2))
    return -0.5 * ((before[:, None] - after) ** 2).sum(axis=2)


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


def _columns(matching: IntArray) -> str:
    return " ".join(f"{col:2d}" for col in matching)


def _pair_table(probabilities: FloatArray) -> Table:
    table = _table("orders \\ newsletter", *NEWSLETTER)
    for name, chances in zip(ORDERS, probabilities, strict=True):
        styles = ["bold green" if chance > 0.5 else "" for chance in chances]
        cells = [
            Text(percent(c), style=style) for c, style in zip(chances, styles, strict=True)
        ]
        table.add_row(name, *cells)
    return table


def _table(first: str, *others: str) -> Table:
    table = Table(box=None, header_style="dim", pad_edge=False, padding=(0, 3, 0, 0))
    table.add_column(first)
    for header in others:
        table.add_column(header, justify="right")
    return table


def _heading(console: Console, text: str) -> None:
    console.print()
    console.print(Rule(Text(text, style="bold"), align="left", characters="-", style="dim"))


def _say(console: Console, text: str) -> None:
    console.print()
    console.print(text)


def _show(console: Console, table: Table) -> None:
    console.print()
    console.print(Padding(table, (0, 2), expand=False))
