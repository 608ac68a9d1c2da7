"""Links in words: a preview of their rows, and a summary."""

import html
import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from permatch._types import FloatArray, IntArray
from permatch.problems import Structure

#: A table of links: `permatch.Links`.
Table = Any

_SHOWN = 6


def headline(links: Table) -> str:
    """Return a summary in one line."""
    decisions = links["decision"]
    return in_one_line(
        Figures(
            n_pairs=len(links),
            n_linked=int((decisions == "link").sum()),
            n_review=int((decisions == "review").sum()),
            n_exact=int(links["is_exact"].sum()),
            expected=links.expected_links,
        )
    )


def in_one_line(figures: "Figures") -> str:
    """Return the most important figures."""
    kind = f"{figures.n_exact:,} exact, the others bounded"
    if figures.n_exact == figures.n_pairs:
        kind = "exact"
    return (
        f"{_plural(figures.n_pairs, 'pair')}: {figures.n_linked:,} linked, "
        f"{figures.n_review:,} undecided; {figures.expected:,.1f} links expected; {kind}"
    )


def as_text(links: Table) -> str:
    """Return the first rows as text, and a summary."""
    rows = [links.columns, *_cells(links)]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = [
        "  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True))
        for row in rows
    ]
    return "\n".join([*lines, *_rest(links), headline(links)])


def as_html(links: Table) -> str:
    """Return the first rows as a table, and a summary."""

    def row(cells: list[str], kind: str) -> str:
        inner = "".join(f"<{kind}>{html.escape(cell)}</{kind}>" for cell in cells)
        return f"<tr>{inner}</tr>"

    body = "".join(row(cells, "td") for cells in _cells(links))
    below = html.escape(". ".join([*_rest(links), headline(links)]))
    return (
        f"<table><thead>{row(links.columns, 'th')}</thead><tbody>{body}</tbody></table>"
        f"<p>{below}</p>"
    )


def _cells(links: Table) -> list[list[str]]:
    n_shown = min(len(links), _SHOWN)
    return [[_cell(links[name][row]) for name in links.columns] for row in range(n_shown)]


def _rest(links: Table) -> list[str]:
    more = len(links) - _SHOWN
    return [f"... {_plural(more, 'more row')}"] if more > 0 else []


def _cell(value: Any) -> str:
    return f"{value:.4f}" if isinstance(value, float | np.floating) else str(value)


def _plural(number: int, thing: str) -> str:
    return f"{number:,} {thing}{'s' * (number != 1)}"


@dataclass(frozen=True)
class Figures:
    """What is counted of links; those of parts are added up.

    Attributes
    ----------
    n_pairs, n_left, n_right : int
        Pairs and records.
    n_components : int
        Components of the pairs that may be linked.
    largest : tuple of int
        Pairs, left and right records of the largest.
    n_wide : int
        Components whose probabilities are not exact.
    n_exact, n_linked, n_review, n_open : int
        Pairs: exact, linked, left undecided, and those because of their intervals.
    expected, chances, right : float
        Probabilities added up: of all pairs, of all by themselves, of those linked.
    alone_left, alone_right : float
        Records expected to have no partner.
    """

    n_pairs: int = 0
    n_left: int = 0
    n_right: int = 0
    n_components: int = 0
    largest: tuple[int, int, int] = (0, 0, 0)
    n_wide: int = 0
    n_exact: int = 0
    n_linked: int = 0
    n_review: int = 0
    n_open: int = 0
    expected: float = 0.0
    chances: float = 0.0
    right: float = 0.0
    alone_left: float = 0.0
    alone_right: float = 0.0

    def __add__(self, other: "Figures") -> "Figures":
        sums = {
            name: mine + getattr(other, name)
            for name, mine in vars(self).items()
            if name != "largest"
        }
        larger = other if other.largest[0] > self.largest[0] else self
        return Figures(**sums, largest=larger.largest)


def figures_of(links: Table, structure: Structure, rows: IntArray) -> Figures:
    """Count what there is to say of links, whose graph has these edges in these rows."""
    is_linked, is_exact = links.is_linked, links["is_exact"]
    is_review = links["decision"] == "review"
    found = structure.components
    largest = 0, 0, 0
    if len(found):
        most = int(np.argmax(found.n_edges))
        n_left, n_right = (int(sizes[most]) for sizes in found.sizes)
        largest = int(found.n_edges[most]), n_left, n_right
    wide = np.unique(found.of_left[structure.left[~is_exact[rows]]])
    return Figures(
        n_pairs=len(links),
        n_left=structure.n_left,
        n_right=structure.n_right,
        n_components=len(found),
        largest=largest,
        n_wide=len(wide),
        n_exact=int(is_exact.sum()),
        n_linked=int(is_linked.sum()),
        n_review=int(is_review.sum()),
        n_open=int((is_review & ~is_exact).sum()),
        expected=links.expected_links,
        chances=float(links["pair_probability"].sum()),
        right=float(links["probability"][is_linked].sum()),
        alone_left=_alone(links["no_partner_left"][rows], structure.left, structure.n_left),
        alone_right=_alone(
            links["no_partner_right"][rows], structure.right, structure.n_right
        ),
    )


def _alone(chances: FloatArray, nodes: IntArray, n: int) -> float:
    """Return how many records are expected to have no partner."""
    alone = np.ones(n)  # records of forbidden pairs only
    alone[nodes] = chances
    return float(alone.sum())


def summary(figures: Figures, offset: float, widths: FloatArray) -> str:
    """Return what was found, line by line.

    Parameters
    ----------
    figures : Figures
        What was counted.
    offset : float
        The constant added to log-odds.
    widths : ndarray
        Of the intervals of probabilities that are not exact.
    """
    lines = [
        f"{_plural(figures.n_pairs, 'pair')} of "
        f"{_plural(figures.n_left, 'left record')} and "
        f"{_plural(figures.n_right, 'right record')}",
        _count(figures, offset),
        _decisions(figures),
        f"{figures.alone_left:,.1f} of {_plural(figures.n_left, 'left record')} and "
        f"{figures.alone_right:,.1f} of {_plural(figures.n_right, 'right record')} are "
        "expected to have no partner",
        *_components(figures, widths),
        *_advice(figures),
    ]
    return "\n".join(lines)


def _count(figures: Figures, offset: float) -> str:
    expected = f"{figures.expected:,.1f} links expected"
    if offset == 0.0:  # nothing was to be kept
        return expected
    added = ""
    if not math.isnan(offset):
        factor = f"{math.exp(offset):.3g}"
        added = "" if factor == "1" else f"; all odds were multiplied by {factor}"
    return f"{expected} (pair probabilities add up to {figures.chances:,.1f}{added})"


def _decisions(figures: Figures) -> str:
    n_linked, quality = figures.n_linked, ""
    if n_linked:
        recall = figures.right / figures.expected if figures.expected else 1.0
        quality = (
            f", expected precision {figures.right / n_linked:.4f} and recall {recall:.4f}"
        )
    left = f"{_plural(figures.n_review, 'pair')} left undecided"
    return f"{_plural(n_linked, 'link')} decided{quality}; {left}"


def _components(figures: Figures, widths: FloatArray) -> list[str]:
    if not figures.n_components:
        return []
    n_edges, n_left, n_right = figures.largest
    lines = [
        f"{_plural(figures.n_components, 'component')}, the largest with "
        f"{_plural(n_edges, 'pair')} of {n_left:,} and {n_right:,} records"
    ]
    if figures.n_exact == figures.n_pairs:
        return [*lines, "all probabilities are exact"]
    return [
        *lines,
        f"{figures.n_exact:,} probabilities are exact; the others, of "
        f"{_plural(figures.n_wide, 'component')} too wide for that, are known to within "
        f"{np.quantile(widths, 0.99):.2g} for 99 % of the pairs and {widths.max():.2g} for "
        "all",
    ]


def _advice(figures: Figures) -> list[str]:
    """Say what would decide more pairs."""
    if not figures.n_open:
        return []
    return [
        f"{_plural(figures.n_open, 'pair')} left undecided, marked review, because "
        "intervals are too wide; their probability is still the best estimate. To decide "
        "more, raise budget=, or give fewer candidates per record, for example without "
        "pairs of low probability"
    ]
