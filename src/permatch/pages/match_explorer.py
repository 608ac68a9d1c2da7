"""The page of `permatch match show`: all about the matchings of one graph."""

from html import escape
from typing import Any

import numpy as np

from permatch.errors import SizeLimitError
from permatch.graphs import BipartiteGraph
from permatch.inference import Diagnostics
from permatch.pages.explorer_page import (
    ExplorerPage,
    button_table,
    chooser,
    legend,
    percent,
    percent_of_log,
    slider,
)
from permatch.pages.html import table
from permatch.pages.match_view import MatchView, match_data

# The slider's scale is quadratic: 22 of 100 is a threshold of 4.84 %.
_FIRST_STOP = 22
_LISTED = 200
_LARGEST_TABLE = 25
#: Most nodes a side that a page shows.
MAX_NODES = 1000


def match_page(view: MatchView) -> ExplorerPage:
    """Return the page about one graph."""
    graph, law = view.graph, view.distribution
    if graph.size > MAX_NODES:
        raise SizeLimitError(
            f"the page supports at most {MAX_NODES} nodes per side, got {graph.size}. "
            "Write the probabilities to a file with permatch match predict --marginals."
        )
    of_graph = f" of graph {view.name}" if view.name else ""
    page = ExplorerPage(
        f"Matchings{of_graph}",
        f"{_sides(graph)}, {_count(graph.n_edges, 'candidate pair')}, "
        f"{_count(len(view.features), 'feature')}; probabilities from a {view.model} model."
        f"{view.note}",
        script="match_explorer.js",
        data=match_data(view),
    )
    kind = "note" if law.is_exact else "note approximate"
    page.add_html(f'<p class="{kind}" id="how">{escape(_how_found(view))}</p>')
    page.add_html(_summary(view))
    page.open_charts()
    _add_edges(page, view)
    _add_difference(page, view)
    _add_marginals(page, view)
    _add_best(page, view)
    page.close_charts(
        "Details",
        "Point at a line, cell or row, or select one with the Tab and arrow keys, to see "
        "the features of the edge and their contributions to its score.",
    )
    return page


def _how_found(view: MatchView) -> str:
    law = view.distribution
    found: Diagnostics = law.diagnostics
    reason = f" ({found.reason})" if found.reason else ""
    if law.is_exact:
        return f"All probabilities are exact, computed by engine {found.engine}{reason}."
    error = (
        "their error is unknown"
        if found.marginal_error is None
        else f"the largest standard error is {percent(found.marginal_error)}"
    )
    doubt = "" if found.is_converged else " The engine did not reach its tolerance."
    return (
        f"Probabilities are approximate, estimated by engine {found.engine}{reason}; "
        f"{error}.{doubt} The mode and the order of the best matchings are exact."
    )


def _sides(graph: BipartiteGraph) -> str:
    """Say how many nodes there are."""
    if graph.n_left == graph.n_right:
        return f"{graph.n_left} nodes per side"
    return f"{graph.n_left} left and {graph.n_right} right nodes"


def _summary(view: MatchView) -> str:
    law, truth, n_left = view.distribution, view.truth, view.graph.n_left
    rows = []
    for name, matching in view.named:
        lines = [k for k in view.lines.of_matching(matching) if view.lines.rows[k] < n_left]
        right = view.lines.chances[lines].sum()
        row: list[Any] = [name, percent_of_log(float(law.log_prob(matching)))]
        row += [int((matching >= 0).sum()), f"{right:.2f} of {n_left}"]
        if truth is not None:
            row.append(f"{int((matching == truth).sum())} of {n_left}")
        rows.append(row)
    header = ["matching", "probability", "links", "left nodes expected to be right"]
    header += ["left nodes that agree with the labels"] if truth is not None else []
    caption = (
        "Mode: the most probable matching. Bayes: the matching with the largest expected "
        "number of left nodes that are right."
    )
    return table(header, rows, caption, ids=True)


def _add_edges(page: ExplorerPage, view: MatchView) -> None:
    chances = view.lines.chances
    threshold = (_FIRST_STOP / 100.0) ** 2
    drawn = np.argsort(-chances, kind="stable")[: int((chances >= threshold).sum())]
    page.add_heading("Edges by probability")
    page.add_html(
        slider(
            "threshold",
            "Minimum probability",
            0,
            100,
            _FIRST_STOP,
            f"{percent(threshold)}: {_count(len(drawn), 'edge')}",
        )
    )
    page.add_canvas(
        "edges",
        f"The {view.graph.n_left} left and {view.graph.n_right} right nodes with lines "
        "between them; stronger lines are more probable. The table below lists the edges.",
        legend(
            [
                ("both", "mode and Bayes matching"),
                ("mode", "mode only"),
                ("bayes", "Bayes only"),
                ("other", "neither"),
                ("chosen", "selected"),
            ]
        ),
        "Thicker, darker lines are more probable edges.",
    )
    page.add_html(
        '<div class="tall">'
        + button_table(
            "edge-table",
            ["edge", "probability", "score", "matching"],
            [
                ({"edge": edge}, _edge_cells(view, edge))
                for edge in drawn[:_LISTED].tolist()
            ],
            f"{_count(len(drawn), 'edge')} shown, most probable first.",
            words=[3],
        )
        + "</div>"
    )


def _add_difference(page: ExplorerPage, view: MatchView) -> None:
    lines, mode, bayes = view.lines, view.mode, view.bayes
    differing = np.flatnonzero(mode != bayes).tolist()
    page.add_heading("Mode and Bayes matching")
    if not differing:
        page.add_text("For this graph they are the same.")
        return
    page.add_text(
        f"They differ in {len(differing)} of {view.graph.n_left} left nodes. The mode is "
        "the matching most likely to be entirely right; the Bayes matching has the largest "
        "expected number of left nodes that are right."
    )
    parts = []
    for name, words in (("mode", "mode"), ("bayes", "Bayes matching")):
        parts.append(
            f'<figure><div class="stack"><canvas id="{name}" role="img" aria-label='
            f'"Edges of the {words} where the two differ; see the table below.">'
            f"</canvas></div><figcaption>Edges of the {words} where the two differ."
            "</figcaption></figure>"
        )
    page.add_html(f'<div class="pair">{"".join(parts)}</div>')
    header = ["left", "mode", "probability", "Bayes", "probability"]
    header += ["labelled"] if view.truth is not None else []
    rows = []
    edges = [lines.of_matching(matching) for matching in (mode, bayes)]
    for i in differing:
        cells = [view.left[i]]
        for matching, own in zip((mode, bayes), edges, strict=True):
            cells += [view.partner(matching[i]), percent(lines.chances[own[i]])]
        cells += [view.partner(view.truth[i])] if view.truth is not None else []
        rows.append(({"edge": edges[1][i]}, cells))
    page.add_html(
        button_table(
            "difference-table",
            header,
            rows,
            "Nodes where the two matchings differ.",
            words=[1, 3, 5],
        )
    )


def _add_marginals(page: ExplorerPage, view: MatchView) -> None:
    lines, graph = view.lines, view.graph
    left, right = lines.names(view.left, view.right)
    page.add_heading("Marginals")
    entries = [
        ("ramp", f"0 % to {percent(lines.chances.max(initial=0.0))}"),
        ("ring", "mode"),
        ("dot", "Bayes matching"),
    ]
    entries += [("cross", "labelled")] if view.truth is not None else []
    if len(lines.rows) < len(left) * len(right):
        entries.append(("void", "not allowed"))
    page.add_html(
        chooser("left", "Left node", left) + chooser("right", "Right node", right)
    )
    page.add_canvas(
        "heat",
        f"Heat map of the probability of each of the {graph.n_left} by {graph.n_right} "
        "edges. To read one, select two nodes in the menus above.",
        legend(entries),
        "Rows are left nodes, columns are right nodes; rows and columns sum to 100 %"
        + (
            ", with the probability of staying unmatched."
            * (len(lines.rows) > lines.n_pairs)
            or "."
        ),
    )
    if graph.size <= _LARGEST_TABLE:
        cells = [[""] * len(right) for _ in left]
        for row, col, chance in zip(
            lines.rows.tolist(), lines.cols.tolist(), lines.chances.tolist(), strict=True
        ):
            cells[row][col] = percent(chance)
        rows = [[name, *chances] for name, chances in zip(left, cells, strict=True)]
        page.add_html(
            "<details><summary>Show as table</summary>"
            + table(["", *right], rows, "Probability of every edge.")
            + "</details>"
        )


def _add_best(page: ExplorerPage, view: MatchView) -> None:
    best = view.best
    logs = view.distribution.log_prob(best.matchings)
    chances = np.cumsum(np.exp(logs))
    rows = []
    for k, matching in enumerate(best.matchings):
        changed = np.flatnonzero(matching != best.matchings[0]).tolist()
        edges: list[Any] = [(view.left[i], view.partner(matching[i])) for i in changed[:6]]
        edges += [f"and {len(changed) - 6} more"] if len(changed) > 6 else []
        cells = [
            k + 1,
            percent_of_log(logs[k]),
            percent(float(np.exp(best.scores[k] - best.scores[0]))),
            percent(min(1.0, chances[k])),
            f"{best.scores[k]:.4g}",
            edges or "(mode)",
        ]
        rows.append(({"matching": k}, cells))
    n_best = len(rows)
    header = ["rank", "probability", "relative to the mode", "cumulative", "score"]
    header.append("edges that differ from the mode")
    page.add_heading("The best matching" if n_best == 1 else f"The {n_best} best matchings")
    page.add_html(
        button_table(
            "best-table",
            header,
            rows,
            "Select a matching to highlight it in the figures."
            + " Probabilities are approximate; the order is exact."
            * (not view.distribution.is_exact),
            words=[5],
        )
    )


def _edge_cells(view: MatchView, line: int) -> list[Any]:
    """Return the names of an edge, its probability, its score, and what it belongs to."""
    owners = [name for name, own in view.drawn_lines if line in own]
    return [
        view.edge_name(line),
        percent(float(view.lines.chances[line])),
        f"{view.lines.scores[line]:.4g}",
        ", ".join(owners),
    ]


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"
