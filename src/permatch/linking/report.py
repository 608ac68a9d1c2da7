"""Links in words: a preview of their rows, and a summary."""

import html
import math
from typing import Any

import numpy as np

from permatch._types import IntArray
from permatch.problems import Structure

#: A table of links: `permatch.Links`.
Table = Any

_SHOWN = 6


def headline(links: Table) -> str:
    """Return a summary in one line."""
    decisions = links["decision"]
    n_links = int((decisions == "link").sum())
    n_review = int((decisions == "review").sum())
    n_exact = int(links["is_exact"].sum())
    kind = "exact" if links.is_exact else f"{n_exact:,} exact, the others bounded"
    return (
        f"{_plural(len(links), 'pair')}: {n_links:,} linked, {n_review:,} undecided; "
        f"{links.expected_links:,.1f} links expected; {kind}"
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


def summary(links: Table, structure: Structure, rows: IntArray) -> str:
    """Return what was found, line by line."""
    lines = [
        f"{_plural(len(links), 'pair')} of {_plural(structure.n_left, 'left record')} and "
        f"{_plural(structure.n_right, 'right record')}",
        _count(links),
        _decisions(links),
        _alone(links, structure, rows),
        *_components(links, structure, rows),
        *_advice(links),
    ]
    return "\n".join(lines)


def _count(links: Table) -> str:
    expected = f"{links.expected_links:,.1f} links expected"
    if links.offset == 0.0:  # nothing was to be kept
        return expected
    total, added = float(links["pair_probability"].sum()), ""
    if not math.isnan(links.offset):
        factor = f"{math.exp(links.offset):.3g}"
        added = "" if factor == "1" else f"; all odds were multiplied by {factor}"
    return f"{expected} (pair probabilities add up to {total:,.1f}{added})"


def _decisions(links: Table) -> str:
    is_linked, expected = links.is_linked, links.expected_links
    n_linked, right = int(is_linked.sum()), float(links["probability"][is_linked].sum())
    quality = ""
    if n_linked:
        recall = right / expected if expected else 1.0
        quality = f", expected precision {right / n_linked:.4f} and recall {recall:.4f}"
    n_review = int((links["decision"] == "review").sum())
    left = f"{_plural(n_review, 'pair')} left undecided"
    return f"{_plural(n_linked, 'link')} decided{quality}; {left}"


def _alone(links: Table, structure: Structure, rows: IntArray) -> str:
    """Say how many records are expected to have no partner."""
    parts = []
    for side, nodes, n in (
        ("left", structure.left, structure.n_left),
        ("right", structure.right, structure.n_right),
    ):
        alone = np.ones(n)  # records of forbidden pairs only
        alone[nodes] = links[f"no_partner_{side}"][rows]
        parts.append(f"{alone.sum():,.1f} of {_plural(n, f'{side} record')}")
    return f"{' and '.join(parts)} are expected to have no partner"


def _components(links: Table, structure: Structure, rows: IntArray) -> list[str]:
    found = structure.components
    if not len(found):
        return []
    largest = int(np.argmax(found.n_edges))
    n_left, n_right = (int(sizes[largest]) for sizes in found.sizes)
    lines = [
        f"{_plural(len(found), 'component')}, the largest with "
        f"{_plural(int(found.n_edges[largest]), 'pair')} of {n_left:,} and {n_right:,} "
        "records"
    ]
    is_exact = links["is_exact"]
    if is_exact.all():
        return [*lines, "all probabilities are exact"]
    parts = np.unique(found.of_left[structure.left[~is_exact[rows]]])
    widths = (links["high"] - links["low"])[~is_exact]
    return [
        *lines,
        f"{int(is_exact.sum()):,} probabilities are exact; the others, of "
        f"{_plural(len(parts), 'component')} too wide for that, are known to within "
        f"{np.quantile(widths, 0.99):.2g} for 99 % of the pairs and {widths.max():.2g} for "
        "all",
    ]


def _advice(links: Table) -> list[str]:
    """Say what would decide more pairs."""
    n_open = int(((links["decision"] == "review") & ~links["is_exact"]).sum())
    if not n_open:
        return []
    return [
        f"{_plural(n_open, 'pair')} left undecided, marked review, because intervals are "
        "too wide; their probability is still the best estimate. To decide more, raise "
        "budget=, or give fewer candidates per record, for example without pairs of "
        "low probability"
    ]
