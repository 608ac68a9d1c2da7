"""The page of `permatch match show`: all about the matchings of one graph."""

import math
from dataclasses import dataclass
from functools import cached_property
from html import escape
from typing import Any

import numpy as np

from permatch._types import FloatArray, IntArray
from permatch.decoding import KBest, bayes_matching
from permatch.distribution import MatchingDistribution
from permatch.errors import SizeLimitError
from permatch.graphs import BipartiteGraph
from permatch.inference import Diagnostics
from permatch.pages.explorer_page import (
    ExplorerPage,
    button_table,
    chooser,
    legend,
    pack,
    percent,
    percent_of_log,
    slider,
)
from permatch.pages.html import table

# The slider's scale is quadratic: 22 of 100 is a threshold of 4.84 %.
_FIRST_STOP = 22
_LISTED = 200
_LARGEST_TABLE = 25
#: Most nodes a side that a page shows.
MAX_NODES = 1000
#: Most feature values in a page, some 10 MB of it.
MAX_VALUES = 2_000_000
# Most matchings looked through for those that differ in more than extra nodes.
_MOST_ALIKE = 1000


@dataclass(frozen=True, eq=False)
class MatchView:
    """One graph, the names of its nodes and features, and what one model makes of it.

    `truth` is the labelled matching, if there is one; `n_best` is how many of the best
    matchings to list, and `model` what the estimator is called.
    """

    name: str
    left: list[str]
    right: list[str]
    features: list[str]
    coef: FloatArray
    graph: BipartiteGraph
    distribution: MatchingDistribution
    truth: IntArray | None
    n_best: int
    model: str

    @cached_property
    def mode(self) -> IntArray:
        """The most probable matching, (m,)."""
        return self.distribution.mode()

    @cached_property
    def bayes(self) -> IntArray:
        """The matching with the most edges expected to be right, (m,)."""
        if self.graph.n_extra < 2:
            found = self.distribution.bayes_matching()
        else:
            weights = self.graph.weigh_extra(self.distribution.marginals)
            found = bayes_matching(weights, self.graph.allowed)
        return self.graph.align_extra(found, self.mode)

    @cached_property
    def labelled(self) -> IntArray | None:
        """The labelled matching, dummy nodes as in the mode, if there is one."""
        return None if self.truth is None else self.graph.align_extra(self.truth, self.mode)

    @cached_property
    def best(self) -> KBest:
        """The best matchings, best first; those alike but for extra nodes count once.

        Fewer than asked for where too many are alike.
        """
        n_alike = math.factorial(self.graph.n_extra)
        n_wanted = self.n_best if n_alike == 1 else min(self.n_best * n_alike, _MOST_ALIKE)
        found = self.distribution.k_best(n_wanted)
        n_left, n_right = self.graph.n_sides
        partners = np.minimum(found.matchings[:, :n_left], n_right)
        _, first = np.unique(partners, axis=0, return_index=True)
        kept = np.sort(first)[: self.n_best]
        both = [self.graph.align_extra(found.matchings[k], self.mode) for k in kept]
        return KBest(np.array(both), found.scores[kept])

    def log_prob(self, matchings: IntArray) -> FloatArray:
        """Return the log-probability of matchings, whichever extra nodes they have."""
        return self.distribution.log_prob(matchings) + math.lgamma(1 + self.graph.n_extra)

    @cached_property
    def named(self) -> list[tuple[str, IntArray]]:
        """The matchings with a name, and their names."""
        found = [("mode", self.mode), ("Bayes", self.bayes)]
        return found if self.labelled is None else [*found, ("labelled", self.labelled)]


def match_data(view: MatchView) -> dict[str, Any]:
    """Return what the script of a matching page needs.

    Features of all edges are included up to `MAX_VALUES` numbers, beyond it those of the
    likeliest edges and of all that some matching of the page uses; ``kept`` lists them.
    """
    law, graph = view.distribution, view.graph
    size, n_features = graph.size, graph.n_features
    values = graph.features.reshape(size * size, n_features)
    kept = None
    if values.size > MAX_VALUES:
        weights = law.marginals.ravel().copy()
        named = [matching for _, matching in view.named]
        for matching in [*named, *view.best.matchings]:
            weights[np.arange(size) * size + matching] = np.inf
        n_kept = max(int(np.isinf(weights).sum()), MAX_VALUES // n_features)
        kept = np.sort(np.argsort(-weights, kind="stable")[:n_kept])
        values = values[kept]
    errors = None if law.is_exact else law.marginal_errors
    return {
        "left": view.left,
        "right": view.right,
        "features": view.features,
        "coef": pack(view.coef, np.float64),
        "chances": pack(law.marginals, np.float64),
        "errors": None if errors is None else pack(errors),
        "scores": pack(law.scores, np.float64),
        "values": pack(values),
        "kept": None if kept is None else pack(kept, np.int32),
        "mode": view.mode.tolist(),
        "bayes": view.bayes.tolist(),
        "truth": None if view.labelled is None else view.labelled.tolist(),
        "best": view.best.matchings.tolist(),
    }


def match_page(view: MatchView) -> ExplorerPage:
    """Return the page about one graph."""
    size, law = view.graph.size, view.distribution
    if size > MAX_NODES:
        raise SizeLimitError(
            f"the page supports at most {MAX_NODES} nodes per side, got {size}. Write the "
            "probabilities to a file with permatch match predict --marginals."
        )
    n_edges = int(np.isfinite(law.scores).sum())
    page = ExplorerPage(
        f"Matchings of graph {view.name}",
        f"{_sides(view.graph)}, {n_edges} edges, {len(view.features)} features; "
        f"probabilities from a {view.model} model.",
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
    n_left, n_right = graph.n_sides
    if n_left == n_right:
        return f"{n_left} nodes per side"
    return f"{n_left} left and {n_right} right nodes"


def _summary(view: MatchView) -> str:
    weights, truth = view.graph.weigh_extra(view.distribution.marginals), view.labelled
    rows = []
    for name, matching in view.named:
        right = weights[np.arange(len(matching)), matching].sum()
        row: list[Any] = [name, percent_of_log(float(view.log_prob(matching)))]
        row.append(f"{right:.2f} of {len(matching)}")
        if truth is not None:
            row.append(f"{int((matching == truth).sum())} of {len(matching)}")
        rows.append(row)
    header = ["matching", "probability", "expected number of right edges"]
    header += ["edges that agree with the labels"] if truth is not None else []
    caption = (
        "Mode: the most probable matching. Bayes: the matching with the largest expected "
        "number of right edges."
    )
    return table(header, rows, caption, ids=True)


def _add_edges(page: ExplorerPage, view: MatchView) -> None:
    marginals = view.distribution.marginals
    threshold = (_FIRST_STOP / 100.0) ** 2
    flat = marginals.ravel()
    drawn = np.argsort(-flat, kind="stable")[: int((flat >= threshold).sum())]
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
        f"The {view.graph.size} left and {view.graph.size} right nodes with lines between "
        "them; stronger lines are more probable. The table below lists the edges.",
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
    law, size = view.distribution, view.graph.size
    mode, bayes = view.mode, view.bayes
    differing = np.flatnonzero(mode != bayes).tolist()
    page.add_heading("Mode and Bayes matching")
    if not differing:
        page.add_text("For this graph they are the same.")
        return
    page.add_text(
        f"They differ in {len(differing)} of {size} nodes. The mode is the matching most "
        "likely to be entirely right; the Bayes matching has the largest expected number "
        "of right edges."
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
    header += ["labelled"] if view.labelled is not None else []
    rows = []
    for i in differing:
        cells = [view.left[i]]
        for matching in (mode, bayes):
            cells += [view.right[matching[i]], percent(law.marginals[i, matching[i]])]
        cells += [view.right[view.labelled[i]]] if view.labelled is not None else []
        rows.append(({"edge": i * size + bayes[i]}, cells))
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
    law, size = view.distribution, view.graph.size
    page.add_heading("Marginals")
    entries = [
        ("ramp", f"0 % to {percent(law.marginals.max())}"),
        ("ring", "mode"),
        ("dot", "Bayes matching"),
    ]
    entries += [("cross", "labelled")] if view.labelled is not None else []
    if not np.isfinite(law.scores).all():
        entries.append(("void", "not allowed"))
    page.add_html(
        chooser("left", "Left node", view.left) + chooser("right", "Right node", view.right)
    )
    page.add_canvas(
        "heat",
        f"Heat map of the probability of each of the {size} by {size} edges. To read one, "
        "select two nodes in the menus above.",
        legend(entries),
        "Rows are left nodes, columns are right nodes; rows and columns sum to 100 %.",
    )
    if size <= _LARGEST_TABLE:
        rows = [
            [name, *map(percent, chances)]
            for name, chances in zip(view.left, law.marginals.tolist(), strict=True)
        ]
        page.add_html(
            "<details><summary>Show as table</summary>"
            + table(["", *view.right], rows, "Probability of every edge.")
            + "</details>"
        )


def _add_best(page: ExplorerPage, view: MatchView) -> None:
    best = view.best
    logs = view.log_prob(best.matchings)
    chances = np.cumsum(np.exp(logs))
    rows = []
    for k, matching in enumerate(best.matchings):
        changed = np.flatnonzero(matching != best.matchings[0]).tolist()
        edges: list[Any] = [(view.left[i], view.right[matching[i]]) for i in changed[:6]]
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


def _edge_cells(view: MatchView, edge: int) -> list[Any]:
    """Return the names of an edge, its probability, its score, and what it belongs to."""
    row, col = divmod(edge, view.graph.size)
    return [
        (view.left[row], view.right[col]),
        percent(float(view.distribution.marginals[row, col])),
        f"{view.distribution.scores[row, col]:.4g}",
        ", ".join(name for name, matching in view.named if matching[row] == col),
    ]


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"
