"""The page of matchings: components by uncertainty, one opened at a time."""

import re
from html import escape
from pathlib import Path
from typing import Any

import numpy as np

from permatch._types import FloatArray
from permatch.pages.alternatives import (
    MAX_NODES,
    Alternatives,
    find_alternatives,
    why_missing,
)
from permatch.pages.divided import CERTAIN, LARGE, Divided, divide
from permatch.pages.explorer_page import ExplorerPage, count, legend, pack
from permatch.pages.match_view import (
    BAYES_ONLY,
    DECISIONS,
    LINK,
    MODE_ONLY,
    REVIEW,
    MatchView,
)
from permatch.pages.shown import Shown, choose_shown

_SAMPLES = (
    (LINK, "both", "link"),
    (MODE_ONLY, "mode", "link in the most probable matching only"),
    (BAYES_ONLY, "bayes", "link in the matching with the fewest expected errors only"),
    (REVIEW, "review", "for review"),
)

# Columns of words rather than numbers.
_IN_WORDS = ("graph", "decision", "label", "links of the first, then what differs")
_WORDS = ' class="words"'


def write_match_page(view: MatchView, path: Path) -> str:
    """Write the page about the pairs of a view, and return what it shows, in words."""
    divided = divide(view)
    shown = choose_shown(divided.view)
    _page(view, divided, shown).write(path)
    n_shown, n_all = len(shown.components), divided.view.n_components
    kind = "exact" if view.is_exact.all() else "approximate"
    words = f"{view.name}, " if view.name else ""
    words += f"{len(shown.left):,} x {len(shown.right):,} {view.node}s"
    if n_shown < n_all:
        words += f" in {n_shown:,} of {count(n_all, 'component')}"
    elif n_shown > 1:
        words += f" in {n_shown:,} components"
    if divided.n_pairs:
        words += " or parts of components"
    words += f", {kind} probabilities"
    n_pairs = view.structure.n_edges - len(shown.edges)
    if n_pairs and view.only is None:
        n_nodes = view.structure.n_left + view.structure.n_right
        n_nodes -= len(shown.left) + len(shown.right)
        nodes = f"{count(n_nodes, view.node)} and " if n_nodes else ""
        words += f"; left out: {nodes}{count(n_pairs, 'pair')}"
    return words


def match_page(view: MatchView, max_bytes: int | None = None) -> ExplorerPage:
    """Return the page about the pairs of a view, those that fit into some bytes."""
    divided = divide(view)
    return _page(view, divided, choose_shown(divided.view, max_bytes))


def _page(view: MatchView, divided: Divided, shown: Shown) -> ExplorerPage:
    best = find_alternatives(divided.view, shown.components.tolist())
    page = ExplorerPage(
        view.title,
        view.lead,
        scripts=("match_drawing.js", "match_explorer.js"),
        data=match_data(divided, shown, best),
    )
    kind = "note" if view.is_exact.all() else "note approximate"
    page.add_html(f'<p class="{kind}" id="how">{escape(view.how)}</p>')
    missing = left_out(view, divided, shown)
    if missing:
        # An option is not cut at its hyphens.
        words = re.sub(r"--\w+", r'<span class="whole">\g<0></span>', escape(missing))
        page.add_html(f'<p class="note" id="left-out">{words}</p>')
    page.open_charts()
    if not len(shown.components):
        page.add_text(
            "No pair is likely enough to be shown."
            if view.structure.n_edges
            else "There is no candidate pair."
        )
    else:
        _add_components(page, view, is_divided=divided.n_pairs > 0)
        _add_open(page, view)
    page.close_charts(
        "Details",
        f"Select a pair, a {view.node} or a {view.matchings[0]} to see what speaks for it.",
    )
    return page


def match_data(
    divided: Divided, shown: Shown, best: dict[int, Alternatives]
) -> dict[str, Any]:
    """Return what the script of the page needs.

    Components, nodes and pairs are numbered in the order in which they are shown.
    """
    view = divided.view
    structure, problem = view.structure, view.problem
    own, edges = shown.components, shown.edges
    sizes = [np.diff(ends) for ends in (structure.left_starts, structure.right_starts)]
    totals = [*sizes, np.diff(structure.edge_starts)]
    evidence = view.evidence.take(edges)

    def optional(values: FloatArray | None) -> Any:
        return None if values is None else pack(rounded(values[edges]))

    return {
        "left": [view.left[k] for k in shown.left.tolist()],
        "right": [view.right[k] for k in shown.right.tolist()],
        "left_starts": pack(shown.left_starts, np.int32),
        "right_starts": pack(shown.right_starts, np.int32),
        "edge_starts": pack(shown.edge_starts, np.int32),
        "graphs": [view.graphs[c] for c in own.tolist()] if view.graphs else None,
        "totals": [pack(values[own], np.int32) for values in totals],
        "sizes": pack(divided.sizes[own], np.int32),
        "errors": pack(view.expected_errors[own], np.float32),
        "is_exact": pack(view.is_exact[own], np.uint8),
        "with_interval": pack(view.with_interval[own], np.uint8),
        "label_errors": None
        if view.label_errors is None
        else pack(view.label_errors[own], np.int32),
        "rows": pack(shown.rows, np.int32),
        "cols": pack(shown.cols, np.int32),
        "chances": pack(rounded(view.chances[edges])),
        "scores": pack(problem.scores[edges], np.float32),
        "decisions": pack(view.decisions[edges], np.uint8),
        "words": DECISIONS,
        "low": optional(view.low),
        "high": optional(view.high),
        "interval": view.interval,
        "pair_chances": optional(view.pair_chances),
        "labels": None
        if view.labels is None
        else pack(np.where(view.labels[edges] < 0, 2, view.labels[edges]), np.uint8),
        "alone": [
            pack(rounded(view.alone_left[shown.left])),
            pack(rounded(view.alone_right[shown.right])),
        ],
        "alone_scores": [
            pack(problem.unmatched_left[shown.left], np.float32),
            pack(problem.unmatched_right[shown.right], np.float32),
        ],
        "features": evidence.names,
        "coef": None if evidence.weights is None else pack(evidence.weights, np.float64),
        "values": pack(evidence.values),
        "added": None if evidence.added is None else pack(evidence.added, np.float32),
        "best": _packed_best(shown, best),
        "most_nodes": MAX_NODES,
        "node": view.node,
        "matchings": view.matchings,
        "why_missing": why_missing(view, len(best)),
    }


def _packed_best(shown: Shown, best: dict[int, Alternatives]) -> list[Any]:
    """Return the best matchings of every component: the first, then what changes in it.

    None stands for a component without; pairs that are not shown are left out.
    """
    size = int(shown.edges.max(initial=-1)) + 1
    number = np.full(size + 1, -1)
    number[shown.edges] = np.arange(len(shown.edges))

    def numbers(edges: Any) -> list[int]:
        found = number[np.minimum(edges, size)]
        return found[found >= 0].tolist()

    packed = []
    for c in shown.components.tolist():
        own = best.get(c)
        if own is None:
            packed.append(None)
            continue
        logs = own.log_probs
        packed.append(
            {
                "first": numbers(own.first),
                "changes": [numbers(changes) for changes in own.changes],
                "losses": np.round(own.losses, 6).tolist(),
                "logs": None
                if logs is None
                else np.round(np.minimum(logs, 0.0), 9).tolist(),
            }
        )
    return packed


def rounded(chances: FloatArray) -> FloatArray:
    """Return probabilities that single precision makes neither 0 nor 1 of.

    Examples
    --------
    >>> rounded(np.array([0.0, 1e-60, 1.0 - 1e-12, 1.0])).astype(np.float32) % 1.0 > 0.0
    array([False,  True,  True, False])
    """
    inner = np.clip(chances, 1e-30, 1.0 - 2.0**-24)
    return np.where((chances > 0.0) & (chances < 1.0), inner, chances)


def left_out(view: MatchView, divided: Divided, shown: Shown) -> str:
    """Say what has no place on the page; nothing if all is there."""
    structure = view.structure
    n_edges = structure.n_edges - len(shown.edges)
    if not n_edges:
        return ""
    n_nodes = structure.n_left + structure.n_right - len(shown.left) - len(shown.right)
    n_shown, n_all = len(shown.components), divided.view.n_components
    below = f"below {100 * CERTAIN:.1f} %"
    words = []
    if divided.n_pairs:
        words.append(
            f"Components of more than {LARGE} {view.node}s are divided into parts by "
            f"leaving out {count(divided.n_pairs, 'pair')} {below}"
            + f", and {count(divided.n_nodes, view.node)} that have no other"
            * bool(divided.n_nodes)
            + "."
        )
    if n_shown < n_all:
        kind = "those asked for" if view.only is not None else "the least certain"
        certain = (
            f", among them {count(shown.n_certain, 'component')} in which every pair is "
            f"above {100 * (1 - CERTAIN):.1f} % or {below}"
        )
        words.append(
            f"This page shows {n_shown:,} of {count(n_all, 'component')}, {kind}. "
            f"{count(n_nodes, view.node)} and {count(n_edges, 'pair')} are left out"
            f"{certain if shown.n_certain else ''}."
        )
    return " ".join([*words, view.table])


def _add_components(page: ExplorerPage, view: MatchView, *, is_divided: bool) -> None:
    total = view.expected_errors.sum()
    n_links = int(view.is_link.sum())
    page.add_heading("Components")
    nearly = ", parts of one nearly so" if is_divided else ""
    page.add_text(
        f"Components are independent of each other{nearly}. "
        f"{count(n_links, 'link')} in all; "
        f"{total:,.2f} of {count(view.structure.n_edges, 'pair')} are expected to be "
        "decided wrongly."
    )
    page.add_html(
        f'<p class="control"><label for="find">Find a {view.node}</label> '
        '<input type="search" id="find" autocomplete="off" aria-describedby="found"> '
        '<output id="found" for="find"></output></p>'
    )
    header = ["least certain pair", "probability", f"{view.node}s"]
    header += ["pairs", "expected errors"]
    header += ["label errors"] if view.labels is not None else []
    header += ["graph"] if view.graphs else []
    page.add_html(_blank_table("component-table", header, "Components.", is_tall=True))
    page.add_html('<p><button type="button" id="more-components">More</button></p>')


def _add_open(page: ExplorerPage, view: MatchView) -> None:
    page.add_html('<h2 id="open-title">Component</h2><p id="open-words"></p>')
    found = set(np.unique(view.decisions).tolist())
    samples = [(kind, words) for number, kind, words in _SAMPLES if number in found]
    label = (
        f"Lines between the left and the right {view.node}s of the component, stronger for "
        "more probable pairs; the table of pairs contains the values."
    )
    page.add_html(
        "<figure>"
        + legend([*samples, ("other", "no link"), ("chosen", "selected")])
        + '<div class="sides" id="drawing"><ul id="left-nodes" '
        f'aria-label="Left {view.node}s">'
        f'</ul><div class="stack"><canvas id="edges" role="img" aria-label="{label}">'
        f'</canvas></div><ul id="right-nodes" aria-label="Right {view.node}s"></ul></div>'
        '<figcaption id="drawn"></figcaption></figure>'
    )
    page.add_heading("Pairs", level=3)
    header = ["pair", "probability"]
    header += [f"interval ({view.interval})"] if view.low is not None else []
    header += ["pair by itself"] if view.pair_chances is not None else []
    header += ["decision"] + (["label"] if view.labels is not None else [])
    page.add_html(_blank_table("pair-table", header, "Pairs.", is_tall=True))
    page.add_html('<p><button type="button" id="more-pairs">More</button></p>')
    page.add_heading("Alternatives", level=3)
    page.add_html('<p id="best-words"></p>')
    header = ["rank", "probability", "links of the first, then what differs"]
    page.add_html(_blank_table("best-table", header, f"The best {view.matchings[1]}."))


def _blank_table(
    name: str, header: list[str], caption: str, *, is_tall: bool = False
) -> str:
    """Return a table whose rows the script fills in; it scrolls if it is too wide."""
    heads = "".join(
        f'<th scope="col"{_WORDS if cell in _IN_WORDS else ""}>{escape(cell)}</th>'
        for cell in header
    )
    kind = "tall" if is_tall else "scroll"
    return (
        f'<div class="{kind}" tabindex="0" role="region" aria-labelledby="{name}-caption">'
        f'<table class="rows" id="{name}"><caption id="{name}-caption">'
        f"<span>{escape(caption)}</span></caption><thead><tr>{heads}</tr></thead>"
        "<tbody></tbody></table></div>"
    )
