"""Pictures of learning to rank: NDCG curves, sample sizes, run times.

All draw on `ax`, by default on a new figure, and return what they drew on.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from permatch.metrics import NDCG
from permatch.plots.matching import BLUE, GREEN, GREY, VERMILION, new_axes

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Lines = Iterable[Mapping[str, Any]]

ORANGE, SKY, PURPLE, BLACK = "#E69F00", "#56B4E9", "#CC79A7", "#222222"

#: Label, colour, marker and line style of the methods; others get what is left.
STYLES = {
    "rankmatch": ("RankMatch", BLUE, "o", "-"),
    "rankmatch_list": ("RankMatch, whole list", GREEN, "^", "-"),
    "rankmatch_pairs": ("RankMatch, all pairs", SKY, "v", "-"),
    "dorm": ("DORM", VERMILION, "s", "-"),
    "ridge": ("query-centred ridge", PURPLE, "D", "-"),
    "rankboost": ("RankBoost", ORANGE, "^", "--"),
    "rankboost_published": ("RankBoost, published", ORANGE, "^", ""),
    "ranksvm": ("RankSVM", ORANGE, "s", "--"),
    "ranksvm_published": ("RankSVM, published", ORANGE, "s", ""),
    "frank": ("FRank-style", VERMILION, "v", "-."),
    "listnet": ("ListNet", GREEN, "D", "-."),
    "adarank_map": ("AdaRank-MAP", GREEN, "P", ":"),
    "adarank_ndcg": ("AdaRank-NDCG", SKY, "X", ":"),
    "qbrank": ("QBRank-style", PURPLE, "D", "--"),
    "isorank": ("IsoRank-style", BLACK, "s", ":"),
    "sortnet": ("SortNet-style", BLACK, "*", ":"),
    "structrank": ("StructRank-style", VERMILION, "^", "-."),
}
_OTHER = (GREY, "x", "-.")

# Panels of the figure: methods beside the baseline, which is in all of them.
_BASELINE = "rankmatch"
_PANELS = {
    "permatch and DORM": ("rankmatch_list", "rankmatch_pairs", "dorm", "ridge"),
    "rivals: linear scores, a network": (
        "ranksvm",
        "ranksvm_published",
        "listnet",
        "structrank",
        "sortnet",
    ),
    "rivals: boosting": (
        "rankboost",
        "rankboost_published",
        "frank",
        "adarank_map",
        "adarank_ndcg",
        "qbrank",
        "isorank",
    ),
}


def label_of(line: Mapping[str, Any]) -> str:
    """Return what a method is called in figures and tables.

    Parameters
    ----------
    line : dict
        With ``method``, and ``subset_size`` where subsets are drawn.

    Returns
    -------
    str
        Its label.

    Examples
    --------
    >>> label_of({"method": "rankmatch", "subset_size": 3})
    'RankMatch, M = 3'
    """
    label = STYLES.get(line["method"], (line["method"],))[0]
    size = line.get("subset_size")
    return label if size is None else f"{label}, M = {size}"


def ndcg_curves(lines: Lines, ax: "Axes | None" = None) -> "Axes":
    """Draw NDCG@k of every method against k.

    A band is one standard deviation over repeats to either side; methods without
    randomness have none.  What is published are points without a line, hollow.  The label
    of the vertical axis says that it does not begin at 0.

    Parameters
    ----------
    lines : iterable of dict
        With ``method``, ``subset_size``, ``ndcg``, ``spread`` and ``variant``, as from
        `reproduce.experiments.ranking_summary.summarise`.

    Examples
    --------
    >>> from matplotlib.figure import Figure
    >>> line = {
    ...     "method": "rankmatch", "subset_size": 3, "variant": "paper",
    ...     "ndcg": [0.5, 0.48, 0.47], "spread": [0.01, 0.01, 0.02],
    ... }
    >>> axes = ndcg_curves([line], Figure().subplots())
    >>> axes.get_legend_handles_labels()[1]
    ['RankMatch, M = 3']
    """
    axes = new_axes(ax)
    for line in lines:
        label = label_of(line)
        if line.get("variant", "paper") != "paper":
            label += " (LETOR's NDCG)"
        cuts = range(1, len(line["ndcg"]) + 1)
        _draw_band(axes, line["method"], label, cuts, line["ndcg"], line["spread"])
    axes.set_xlabel("k, number of documents")
    axes.set_xticks(range(1, 11))
    _finish_curves([axes], "NDCG@k")
    return axes


def ndcg_panels(lines: Lines, figure: "Figure", *, is_stacked: bool = False) -> "Figure":
    """Draw NDCG@k of every method, in panels that all have the baseline and one scale.

    Panels without a method are left out, and methods that belong to no panel stand in the
    first one.

    Parameters
    ----------
    lines : iterable of dict
        As in `ndcg_curves`.
    figure : matplotlib Figure
        Cleared first.
    is_stacked : bool
        Panels one below the other, for narrow pages, not side by side.

    Returns
    -------
    matplotlib Figure
        The figure.

    Examples
    --------
    >>> from matplotlib.figure import Figure
    >>> line = {"subset_size": None, "variant": "paper", "ndcg": [0.5, 0.4], "spread": None}
    >>> lines = [line | {"method": name} for name in ("rankmatch", "ridge", "listnet")]
    >>> [len(axes.get_lines()) for axes in ndcg_panels(lines, Figure()).axes]
    [2, 2]
    """
    found = list(lines)
    figure.clear()
    panels = _panels(found)
    grid = (len(panels), 1) if is_stacked else (1, len(panels))
    every = list(figure.subplots(*grid, sharex=True, sharey=True, squeeze=False).flat)
    for axes, (title, chosen) in zip(every, panels.items(), strict=True):
        ndcg_curves(chosen, axes)
        axes.set_title(title, fontsize="medium")
    _finish_curves(every, "NDCG@k", "small")
    for axes in every:
        axes.label_outer()
    return figure


def _panels(lines: Sequence[Mapping[str, Any]]) -> dict[str, list[Mapping[str, Any]]]:
    """Return the lines of every panel by its title; the baseline is drawn first."""
    first, *_ = _PANELS
    place = {method: title for title, methods in _PANELS.items() for method in methods}
    titles = {
        place.get(line["method"], first): None
        for line in lines
        if line["method"] != _BASELINE
    }
    return {
        title: [
            line
            for line in lines
            if line["method"] == _BASELINE or place.get(line["method"], first) == title
        ]
        for title in _PANELS
        if title in titles
    } or {first: list(lines)}


def sample_size_curve(lines: Lines, ax: "Axes | None" = None) -> "Axes":
    """Draw NDCG@1 of every method against the number of training subsets.

    The line is the mean over repeats, the band one standard deviation to either side.

    Parameters
    ----------
    lines : iterable of dict
        With ``method``, ``n_subsets``, ``mean`` and ``spread``, as from
        `reproduce.experiments.ohsumed_sample_size.summarise`; differences are not drawn.

    Examples
    --------
    >>> from matplotlib.figure import Figure
    >>> lines = [
    ...     {"method": "rankmatch", "n_subsets": n, "mean": 0.5 + n / 10, "spread": 0.01}
    ...     for n in (0.1, 0.4, 1.0)
    ... ]
    >>> axes = sample_size_curve(lines, Figure().subplots())
    >>> axes.get_legend_handles_labels()[1]
    ['RankMatch']
    """
    axes = new_axes(ax)
    curves: dict[str, list[Mapping[str, Any]]] = {}
    for line in lines:
        if line["method"] in STYLES:
            curves.setdefault(line["method"], []).append(line)
    for method, found in curves.items():
        found = sorted(found, key=lambda line: line["n_subsets"])
        shares = [line["n_subsets"] for line in found]
        mean = [line["mean"] for line in found]
        spread = [line["spread"] or 0.0 for line in found]
        _draw_band(axes, method, STYLES[method][0], shares, mean, spread)
    axes.set_xlabel("subsets per query, as a multiple of D·M (log scale)")
    if curves:
        axes.set_xscale("log")
        shares = sorted({line["n_subsets"] for found in curves.values() for line in found})
        axes.set_xticks(shares, [f"{share:g}" for share in shares])
        axes.minorticks_off()
    _finish_curves([axes], str(NDCG @ 1))
    return axes


def runtime_bars(lines: Lines, ax: "Axes | None" = None) -> "Axes":
    """Draw training times per observation, those of the paper pale and hatched.

    Parameters
    ----------
    lines : iterable of dict
        With ``task``, ``size``, ``model``, ``margin``, ``paper_model`` and
        ``paper_margin``, as from `reproduce.experiments.rank_runtime.summarise`.  Where
        there is a ``model_range`` or ``margin_range``, a line from the fastest to the
        slowest repeat is drawn.

    Examples
    --------
    >>> from matplotlib.figure import Figure
    >>> line = {
    ...     "task": "ranking", "size": 3, "model": 2e-6, "margin": 1e-5,
    ...     "paper_model": 6e-4, "paper_margin": None,
    ... }
    >>> axes = runtime_bars([line], Figure().subplots())
    >>> axes.has_data()
    True
    """
    axes = new_axes(ax)
    found = list(lines)
    columns = (
        ("model", "exponential model", BLUE, None),
        ("paper_model", "exponential model, paper", BLUE, "//"),
        ("margin", "max-margin", VERMILION, None),
        ("paper_margin", "max-margin, paper", VERMILION, "//"),
    )
    width = 0.2
    for k, (column, label, color, hatch) in enumerate(columns):
        places = [n for n, line in enumerate(found) if line[column] is not None]
        axes.bar(
            [place + (k - 1.5) * width for place in places],
            [found[place][column] for place in places],
            width=width,
            label=label,
            color=color if hatch is None else "none",
            edgecolor=color,
            hatch=hatch,
        )
        for place in places:
            if f"{column}_range" in found[place]:
                middle = place + (k - 1.5) * width
                axes.vlines(middle, *found[place][f"{column}_range"], color="0.15")
    axes.set_xticks(range(len(found)), _size_labels(found))
    axes.set(ylabel="seconds per observation (log scale)", xlabel="documents per subset, M")
    if found:
        axes.set_yscale("log")
        axes.legend(frameon=False, fontsize="small")
    axes.grid(alpha=0.25, axis="y")
    axes.set_axisbelow(True)
    return axes


def _size_labels(lines: Sequence[Mapping[str, Any]]) -> list[str]:
    return [
        "whole list"
        if line["size"] == "all"
        else f"{line['size']}\n(images)"
        if line["task"] == "images"
        else str(line["size"])
        for line in lines
    ]


def _draw_band(
    axes: "Axes", method: str, label: str, x: Sequence[float], mean: Any, spread: Any
) -> None:
    """Draw a curve, with a band of one `spread` to either side unless it is None."""
    _, color, marker, style = STYLES.get(method, (None, *_OTHER))
    axes.plot(
        x,
        mean,
        color=color,
        marker=marker,
        linestyle=style,
        label=label,
        markersize=4 if style else 6,
        markerfacecolor=color if style else "none",
    )
    if spread is not None:
        low, high = np.subtract(mean, spread), np.add(mean, spread)
        axes.fill_between(x, low, high, color=color, alpha=0.15, linewidth=0)


def _finish_curves(every: Sequence["Axes"], measure: str, size: str = "medium") -> None:
    """Let the vertical axis, the same for all, begin below the curves, and say where."""
    for axes in every:
        axes.grid(alpha=0.25)
    drawn = [axes.dataLim.intervaly for axes in every if axes.get_lines()]
    if not drawn:
        return
    lowest, highest = min(low for low, _ in drawn), max(high for _, high in drawn)
    room = 0.08 * (highest - lowest) + 0.002
    bottom = max(0.0, float(np.floor(100 * (lowest - room)) / 100))
    note = "axis from 0" if bottom == 0.0 else f"axis begins at {bottom:.2f}, not at 0"
    for axes in every:
        axes.set_ylim(bottom, highest + room)
        axes.set_ylabel(f"{measure} on test queries\n({note})")
        axes.legend(frameon=False, fontsize=size)
