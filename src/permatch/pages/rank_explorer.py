"""The page of `permatch rank show`: how one list is ranked, and why."""

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

import numpy as np

from permatch._types import FloatArray, IntArray
from permatch.estimators.query_scaler import scale_within_queries
from permatch.estimators.ranker import BaseRanker
from permatch.pages.explorer_page import (
    ExplorerPage,
    button_table,
    legend,
    pack,
    percent,
    slider,
)
from permatch.ranking_distribution import RankingDistribution

#: Most documents that a page shows.
MAX_DOCUMENTS = 1000
_FIRST_TOP = 10
#: Splits of trees that are shown of a document.
_MOST_SPLITS = 12
#: Of a document's ranks, the share between the ends of the range shown.
_RANGE = 0.8


@dataclass(frozen=True, eq=False)
class RankView:
    """The documents of one query under one model, in file order.

    `values` are the features in the file, `pushes` what each adds to the score, less its
    mean over the list; both are (n, d).  `distribution` is None for models that only score.
    `best` has the intervals of the probability of the best level, and what they are called,
    for models that know how sure their weights are, where probabilities are exact.
    `moves` are, for models of trees, the splits that moved each document most, the largest
    first: feature, threshold, whether the document is above it, and how far it was moved.
    """

    name: str
    documents: list[str]
    features: list[str]
    values: FloatArray
    pushes: FloatArray
    scores: FloatArray
    grades: IntArray
    distribution: RankingDistribution | None
    model: str
    scaling: str | None
    best: tuple[FloatArray, FloatArray, str] | None = None
    moves: list[list[Any]] | None = None

    @property
    def order(self) -> IntArray:
        """Documents from the best to the worst; equal scores keep their order, (n,)."""
        return np.argsort(-self.scores, kind="stable")


def rank_view(
    name: str,
    documents: Sequence[str],
    values: FloatArray,
    grades: IntArray,
    model: BaseRanker,
) -> RankView:
    """Return what a linear ranker, or one of trees, makes of the documents of one query."""
    ends = np.array([0, len(values)])
    scaled = values
    if model.scaling is not None:
        scaled = scale_within_queries(values, ends, model.scaling)
    parts = model._contributions(scaled)
    find_distribution = getattr(model, "distribution", None)
    find_moves = getattr(model, "_moves", None)
    names = model.feature_names_ or [f"feature {k + 1}" for k in range(values.shape[1])]
    law = None if find_distribution is None else find_distribution(values)
    return RankView(
        name=name,
        documents=list(documents),
        features=list(names),
        values=values,
        pushes=parts - parts.mean(axis=0),
        scores=model.predict(values, group=[len(values)]),
        grades=grades,
        distribution=law,
        model=type(model).__name__,
        scaling=model.scaling,
        best=_intervals(values, model, law),
        moves=None if find_moves is None else find_moves(scaled, _MOST_SPLITS),
    )


def _intervals(
    values: FloatArray, model: Any, law: RankingDistribution | None
) -> tuple[FloatArray, FloatArray, str] | None:
    """Return intervals of the probability of the best level, if they can be told."""
    posterior = getattr(model, "posterior_", None)
    if law is None or posterior is None or not law.is_exact:
        return None
    found = model.rank_marginals(values, law.position_weights, uncertainty=posterior)
    # All ranks of a level are equally probable.
    low, high = (law.level_sizes[0] * ends[:, 0] for ends in (found.low, found.high))
    return low, high, f"95 %, {posterior.interval_name} of the weights"


def rank_data(view: RankView) -> dict[str, Any]:
    """Return what the script of a ranking page needs: documents, the best first."""
    order, law = view.order[:MAX_DOCUMENTS], view.distribution
    levels = None
    if law is not None:
        levels = {
            "sizes": law.level_sizes.tolist(),
            "chances": pack(law.level_marginals[order], np.float64),
        }
    return {
        "documents": [view.documents[i] for i in order],
        "features": view.features,
        "grades": view.grades[order].tolist(),
        "scores": pack(view.scores[order], np.float64),
        "values": pack(view.values[order]),
        "pushes": pack(view.pushes[order]),
        "moves": None if view.moves is None else [view.moves[i] for i in order],
        "levels": levels,
    }


def rank_page(view: RankView) -> ExplorerPage:
    """Return the page about one query."""
    n_documents, law = len(view.documents), view.distribution
    n_shown = min(n_documents, MAX_DOCUMENTS)
    cut = f"; the best {n_shown:,} are shown" if n_shown < n_documents else ""
    noun = "document" if n_documents == 1 else "documents"
    page = ExplorerPage(
        f"Ranking of query {view.name}",
        f"{n_documents:,} {noun}, {len(view.features)} features; ranked by a {view.model} "
        f"model{cut}.",
        scripts=("rank_explorer.js",),
        data=rank_data(view),
    )
    kind = "note" if law is None or law.is_exact else "note approximate"
    page.add_html(f'<p class="{kind}" id="how">{escape(_how_found(view))}</p>')
    page.open_charts()
    page.add_heading("Scores")
    page.add_canvas(
        "scores",
        f"Bar chart of the scores of the {n_shown} documents, best first, relative to the "
        "mean of the list; the table of documents contains the values.",
        legend(
            [("up", "above the mean"), ("down", "below the mean"), ("chosen", "selected")]
        ),
        "Bars start at the mean score of the list. Point at one to see the contributions "
        "of its features.",
    )
    if law is not None:
        _add_ranks(page, view, law)
    _add_documents(page, view)
    what = "features and splits" if view.moves else "features"
    page.close_charts(
        "Details",
        "Point at a bar, cell or row, or select one with the Tab and arrow keys, to see "
        f"which {what} moved the document up or down.",
    )
    return page


def _how_found(view: RankView) -> str:
    law = view.distribution
    if law is None:
        return (
            f"{view.model} models give scores but no probabilities; fit a RankMatch model "
            "to see the probability of every rank."
        )
    if law.is_exact:
        return "All rank probabilities are exact."
    worst = percent(float(law.standard_errors.max()))
    return (
        "Rank probabilities are approximate, estimated from sampled rankings; the largest "
        f"standard error is {worst}."
    )


def _add_ranks(page: ExplorerPage, view: RankView, law: RankingDistribution) -> None:
    n_documents = len(view.documents)
    shown = law.level_marginals[view.order[:MAX_DOCUMENTS]] / law.level_sizes
    page.add_heading("Probability of each rank")
    page.add_text(
        f"The model has {len(law.level_sizes)} levels of positions: "
        f"{_levels(law.level_sizes.tolist())}, as many as the documents of each grade that "
        "it expects of this query. Within a level all orders are equally probable, hence "
        "the equal shades."
    )
    top = min(_FIRST_TOP, n_documents)
    words = f"{top} ranks" if top > 1 else "1 rank"
    page.add_html(slider("top", "Consider the top", 1, n_documents, top, words))
    page.add_canvas(
        "ranks",
        "Heat map of the probability of each document (row) at each rank (column); the "
        "table of documents contains expected ranks and probabilities of the top ranks.",
        legend(
            [
                ("ramp", f"0 % to {percent(float(shown.max()))}"),
                ("mode", "end of the top ranks considered"),
                ("chosen", "selected"),
            ]
        ),
        "Rows are documents, best score first; columns are ranks.",
    )


def _add_documents(page: ExplorerPage, view: RankView) -> None:
    law, order = view.distribution, view.order[:MAX_DOCUMENTS]
    page.add_heading("Documents")
    header = ["document", "rank", "score", "grade"]
    spread: list[list[Any]] = [[] for _ in order]
    caption = "Best first; grades as in the file."
    if law is not None:
        n_documents = len(view.documents)
        top = min(_FIRST_TOP, n_documents)
        header += [f"in the top {top}", "expected rank", "likely ranks"]
        caption += (
            " Likely ranks: a range that contains the rank of the document with a "
            f"probability of at least {100 * _RANGE:.0f} %."
        )
        marginals = law.marginals[order]
        spread = [
            [
                percent(min(1.0, float(row[:top].sum()))),
                f"{row @ np.arange(1.0, len(row) + 1.0):.1f}",
                _range(row),
            ]
            for row in marginals
        ]
        if view.best is not None:
            low, high, words = view.best
            size = int(law.level_sizes[0])
            header += ["of the best level", f"interval ({words})"]
            caption += f" The best level: {_first_ranks(size)}."
            for cells, i in zip(spread, order.tolist(), strict=True):
                ends = " to ".join(percent(float(end[i])) for end in (low, high))
                cells += [percent(float(law.level_marginals[i, 0])), ends]
    rows = [
        (
            {"document": place},
            [
                view.documents[i],
                place + 1,
                f"{view.scores[i]:.4g}",
                view.grades[i],
                *spread[place],
            ],
        )
        for place, i in enumerate(order.tolist())
    ]
    page.add_html(
        '<div class="tall">'
        + button_table("document-table", header, rows, caption)
        + "</div>"
    )
    if view.scaling is not None:
        page.add_text(
            f"The model scales every feature within the list ({view.scaling}); the values "
            "shown are those in the file"
            + (", thresholds those of scaled values." if view.moves else ".")
        )


def _first_ranks(size: int) -> str:
    """Write the first ranks: rank 1, or ranks 1 to 4."""
    return "rank 1" if size == 1 else f"ranks 1 to {size}"


def _levels(sizes: list[int]) -> str:
    """Write the positions of all levels: 1, 2 to 4 and 5 to 9."""
    words, first = [], 1
    for size in sizes:
        last = first + size - 1
        words.append(str(first) if size == 1 else f"{first} to {last}")
        first = last + 1
    if len(words) > 8:
        words = [*words[:3], "...", words[-1]]
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"


def _range(chances: FloatArray) -> str:
    """Return the ranks between equal tails, widened to whole ranks."""
    below = np.cumsum(chances)
    tail = (1.0 - _RANGE) / 2.0
    first = int(np.searchsorted(below, tail, side="right")) + 1
    last = int(np.searchsorted(below, 1.0 - tail - 1e-12)) + 1
    last = min(last, len(chances))
    return f"{first} to {last}" if last > first else str(first)
