"""Pictures of learning to match: losses, calibration, and matched silhouettes.

Colours are Okabe and Ito's, safe for colour blindness; markers or line styles repeat them.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from permatch._optional import require

if TYPE_CHECKING:
    from matplotlib.axes import Axes

BLUE, VERMILION, GREEN, GREY = "#0072B2", "#D55E00", "#009E73", "#666666"

#: Label, colour, marker and line style of the methods; others get what is left.
STYLES = {
    "unweighted": ("unweighted features", GREY, "", ":"),
    "map": ("MAP", BLUE, "o", "-"),
    "max_margin": ("max-margin", VERMILION, "s", "--"),
    "boosted": ("boosted trees", GREEN, "D", "-."),
    "pairs": ("trees, pair by pair", "black", "v", ":"),
}
_OTHER = (GREEN, "^", "-.")


def learning_curve(rows: Iterable[Mapping[str, Any]], ax: "Axes | None" = None) -> "Axes":
    """Draw the Hamming loss of every method against the number of training pairs.

    The line is the mean over repeats, the band one standard deviation to either side.  A
    method that learns nothing, with rows of ``n = 0`` only, is a level line.

    Parameters
    ----------
    rows : iterable of dict
        With ``method``, ``n``, ``repeat`` and ``hamming_loss``, one row
        per method, number of training pairs ``n`` and repeat.
    ax : matplotlib Axes, optional
        Axes to draw on; default: a new figure.

    Returns
    -------
    matplotlib Axes
        The axes.

    Examples
    --------
    >>> from matplotlib.figure import Figure
    >>> rows = [
    ...     {"method": "map", "n": n, "repeat": repeat, "hamming_loss": 1 / n + repeat / 50}
    ...     for n in (5, 10, 20)
    ...     for repeat in (0, 1)
    ... ]
    >>> axes = learning_curve(rows, Figure().subplots())
    >>> axes.get_legend_handles_labels()[1]
    ['MAP']
    """
    axes = new_axes(ax)
    losses: dict[str, dict[int, list[float]]] = {}
    for row in rows:
        by_n = losses.setdefault(row["method"], {})
        by_n.setdefault(row["n"], []).append(row["hamming_loss"])
    for method, by_n in losses.items():
        label, color, marker, line = STYLES.get(method, (method, *_OTHER))
        sizes = sorted(by_n)
        mean = np.array([np.mean(by_n[n]) for n in sizes])
        spread = np.array([_spread(by_n[n]) for n in sizes])
        if sizes == [0]:
            axes.axhline(mean[0], color=color, linestyle=line, label=label)
            axes.axhspan(*(mean + [-1, 1] * spread), color=color, alpha=0.12, linewidth=0)
            continue
        axes.plot(sizes, mean, color=color, marker=marker, linestyle=line, label=label)
        axes.fill_between(
            sizes, mean - spread, mean + spread, color=color, alpha=0.18, linewidth=0
        )
    axes.set(xlabel="training pairs", ylabel="Hamming loss on test pairs")
    axes.set_ylim(bottom=0.0)
    axes.set_xlim(left=0.0)
    axes.set_xticks(sorted({n for by_n in losses.values() for n in by_n}))
    axes.grid(alpha=0.25)
    if losses:
        axes.legend(frameon=False)
    return axes


def reliability(calibration: Any, ax: "Axes | None" = None) -> "Axes":
    """Draw how often edges, or nodes, are right against their predicted probability.

    On the diagonal the probabilities are calibrated.  The area of a dot grows with the
    logarithm of the number of edges, or nodes, in its bin.

    Parameters
    ----------
    calibration : permatch.metrics.Calibration
        The reliability curve of predicted edge marginals, or of nodes.
    ax : matplotlib Axes, optional
        Axes to draw on; default: a new figure.

    Returns
    -------
    matplotlib Axes
        The axes.

    Examples
    --------
    >>> from matplotlib.figure import Figure
    >>> import numpy as np
    >>> from permatch.metrics import calibration
    >>> sure = np.array([[0.8, 0.2], [0.2, 0.8]])
    >>> axes = reliability(calibration([sure], [[0, 1]], n_bins=2), Figure().subplots())
    >>> axes.has_data()
    True
    """
    axes = new_axes(ax)
    counts = np.asarray(calibration.counts)
    is_filled = counts > 0
    predicted = np.asarray(calibration.mean_predicted)[is_filled]
    observed = np.asarray(calibration.observed)[is_filled]
    axes.plot([0, 1], [0, 1], color=GREY, linestyle=":", label="perfectly calibrated")
    error = calibration.expected_calibration_error
    is_node = calibration.unit == "node"
    predicted_of = "confidence" if is_node else "predicted probability of an edge"
    axes.plot(predicted, observed, color=BLUE, label=f"calibration error {error:.4f}")
    axes.scatter(predicted, observed, s=15 * (1 + np.log10(counts[is_filled])), color=BLUE)
    axes.set(
        xlabel=predicted_of,
        ylabel=f"share of right {calibration.unit}s",
        xlim=(-0.02, 1.02),
        ylim=(-0.02, 1.02),
        aspect="equal",
    )
    axes.grid(alpha=0.25)
    axes.legend(frameon=False, loc="upper left")
    return axes


def matched_silhouettes(
    outlines: Sequence[ArrayLike],
    points: Sequence[ArrayLike],
    matching: ArrayLike,
    probabilities: ArrayLike,
    truth: ArrayLike | None = None,
    ax: "Axes | None" = None,
) -> "Axes":
    """Draw two outlines side by side, with lines between the points that were matched.

    The darker a line, the more probable the match.  Right matches are solid blue lines,
    wrong ones dashed vermilion lines with a cross at their right end.

    Parameters
    ----------
    outlines : pair of arrays of shape (k, 2)
        The two closed outlines.
    points : pair of arrays of shape (m, 2)
        Left nodes on the first outline, right nodes on the second.
    matching : array of shape (m,)
        The predicted matching; left point i goes to right point ``matching[i]``.
    probabilities : array of shape (m,) or (m, m)
        Of the matched edges, or of all edges.
    truth : array of shape (m,), optional
        The true matching; None draws all matches alike.
    ax : matplotlib Axes, optional
        Axes to draw on; default: a new figure.

    Returns
    -------
    matplotlib Axes
        The axes.

    Examples
    --------
    >>> from matplotlib.figure import Figure
    >>> outline = [[0, 0], [2, 0], [2, 1], [0, 1]]
    >>> points = [[0, 0], [2, 0], [2, 1]]
    >>> axes = matched_silhouettes(
    ...     [outline, outline], [points, points], [0, 2, 1], [0.9, 0.4, 0.5], [0, 1, 2],
    ...     Figure().subplots(),
    ... )
    >>> axes.has_data()
    True
    """
    axes = new_axes(ax)
    matching = np.asarray(matching)
    chances = np.asarray(probabilities, dtype=float)
    if chances.ndim == 2:
        chances = chances[np.arange(len(matching)), matching]
    is_right = np.full(len(matching), True) if truth is None else matching == truth

    (left, left_points), (right, right_points) = _side_by_side(outlines, points)
    for outline in (left, right):
        axes.fill(*outline.T, facecolor="0.92", edgecolor="0.6", linewidth=0.8, zorder=1)
    for i in np.argsort(chances):  # the most probable on top
        ends = np.array([left_points[i], right_points[matching[i]]])
        axes.plot(
            *ends.T,
            color=_tint(BLUE if is_right[i] else VERMILION, float(chances[i])),
            linestyle="-" if is_right[i] else "--",
            linewidth=1.4,
            zorder=2,
        )
    axes.scatter(*left_points.T, s=14, color="0.15", zorder=3)
    axes.scatter(*right_points.T, s=14, color="0.15", zorder=3)
    wrong = right_points[matching[~is_right]]
    axes.scatter(*wrong.T, s=42, marker="x", color=VERMILION, zorder=4)
    _explain_lines(axes, is_right, is_known=truth is not None)
    axes.set_aspect("equal")
    axes.set_axis_off()
    return axes


def _explain_lines(axes: "Axes", is_right: np.ndarray, *, is_known: bool) -> None:
    """Add a legend with the number of right and of wrong matches."""
    lines = require("matplotlib.lines", "plots")
    kinds = [("right" if is_known else "matched", BLUE, "-", int(is_right.sum()))]
    if is_known:
        kinds.append(("wrong", VERMILION, "--", int((~is_right).sum())))
    handles = [
        lines.Line2D([], [], color=color, linestyle=style, label=f"{count} {name}")
        for name, color, style, count in kinds
    ]
    pale = lines.Line2D([], [], color=_tint(BLUE, 0.0), label="paler: less probable")
    handles.append(pale)
    axes.legend(
        handles=handles,
        frameon=False,
        ncols=len(handles),
        loc="upper center",
        bbox_to_anchor=(0.5, 0.02),
    )


def _side_by_side(
    outlines: Sequence[ArrayLike], points: Sequence[ArrayLike]
) -> list[tuple[np.ndarray, np.ndarray]]:
    """Return outlines and their points, each of height 1, the second next to the first."""
    placed, edge = [], 0.0
    for outline, marks in zip(outlines, points, strict=True):
        shape = np.asarray(outline, dtype=float)
        low, high = shape.min(axis=0), shape.max(axis=0)
        unit = float(high[1] - low[1]) or 1.0
        moved = [
            (np.asarray(part, dtype=float) - low) / unit + [edge, 0.0]
            for part in (shape, marks)
        ]
        placed.append((moved[0], moved[1]))
        edge = float(moved[0][:, 0].max()) + 0.35
    return placed


def _tint(color: str, probability: float) -> tuple[float, float, float]:
    """Mix a colour with white, all of it at probability 1."""
    colors = require("matplotlib.colors", "plots")
    share = 0.25 + 0.75 * float(np.clip(probability, 0.0, 1.0))
    red, green, blue = (1.0 - share * (1.0 - part) for part in colors.to_rgb(color))
    return red, green, blue


def new_axes(ax: "Axes | None") -> "Axes":
    """Return the Axes given, or those of a new figure."""
    if ax is not None:
        return ax
    pyplot = require("matplotlib.pyplot", "plots", what="permatch.plots")
    return pyplot.subplots(layout="constrained")[1]


def _spread(values: Sequence[float]) -> float:
    return float(np.std(values, ddof=1)) if len(values) > 1 else 0.0
