"""Pictures of the CMU House: losses by the gap between frames, and matched landmarks.

All draw on `ax`, by default on a new figure, and return what they drew on.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from permatch.plots.matching import BLUE, GREEN, STYLES, VERMILION, new_axes

if TYPE_CHECKING:
    from matplotlib.axes import Axes

#: Label, colour, marker and line style of the methods.
HOUSE_STYLES = {
    "unweighted": STYLES["unweighted"],
    "map": ("MAP, Bethe gradients", BLUE, "o", "-"),
    "map_drawn": ("MAP, sampled gradients", GREEN, "^", "-."),
    "map_exact": ("MAP, exact gradients", "black", "s", ":"),
    "max_margin": STYLES["max_margin"],
}

# Shift of a method's error bars, in frames, so that they do not hide each other.
_SHIFT = 0.4


def gap_curve(lines: Iterable[Mapping[str, Any]], ax: "Axes | None" = None) -> "Axes":
    """Draw the Hamming loss of every method against the gap between frames.

    Bars are one standard error over test pairs to either side.

    Parameters
    ----------
    lines : iterable of dict
        With ``gap`` and, for the methods there are, their loss under their own name and its
        standard error as ``..._error``, as from `cmu_house.summarise`.

    Examples
    --------
    >>> from matplotlib.figure import Figure
    >>> lines = [{"gap": gap, "map": gap / 500, "map_error": 0.01} for gap in (10, 50, 90)]
    >>> axes = gap_curve(lines, Figure().subplots())
    >>> axes.get_legend_handles_labels()[1]
    ['MAP, Bethe gradients']
    """
    axes = new_axes(ax)
    lines = sorted(lines, key=lambda line: line["gap"])
    for k, (method, (label, color, marker, style)) in enumerate(HOUSE_STYLES.items()):
        known = [line for line in lines if line.get(method) is not None]
        if not known:
            continue
        gaps = np.array([line["gap"] for line in known], dtype=float)
        axes.errorbar(
            gaps + _SHIFT * (k - 1.5),
            [line[method] for line in known],
            yerr=[line.get(f"{method}_error") or 0.0 for line in known],
            color=color,
            marker=marker,
            linestyle=style,
            label=label,
            markersize=4.5,
            elinewidth=0.8,
        )
    axes.set(xlabel="gap between the frames", ylabel="Hamming loss on test pairs")
    axes.set_ylim(bottom=0.0)
    axes.set_xticks([line["gap"] for line in lines])
    axes.grid(alpha=0.25)
    if axes.has_data():
        axes.legend(frameon=False, loc="upper left")
    return axes


def matched_landmarks(
    points: Sequence[ArrayLike],
    matching: ArrayLike,
    title: str = "",
    ax: "Axes | None" = None,
) -> "Axes":
    """Draw the landmarks of two frames side by side, with lines between those matched.

    Landmark i of one frame is landmark i of the other: right matches are solid blue lines,
    wrong ones dashed vermilion lines with a cross at their right end.

    Parameters
    ----------
    points : pair of arrays of shape (m, 2)
        Landmarks of the two frames, x to the right and y downwards.
    matching : array of shape (m,)
        Landmark i of the first frame goes to landmark ``matching[i]`` of the second.
    title : str
        What stands before the numbers of right and wrong matches.

    Examples
    --------
    >>> from matplotlib.figure import Figure
    >>> points = [[[0, 0], [1, 0], [1, 1]], [[0, 0.1], [1, 0.2], [0.9, 1]]]
    >>> matched_landmarks(points, [0, 2, 1], ax=Figure().subplots()).get_title()
    '1 right, 2 wrong'
    """
    axes = new_axes(ax)
    left, right = (np.asarray(frame, dtype=float) for frame in points)
    shift = left[:, 0].max() - right[:, 0].min() + 0.35 * np.ptp(left[:, 0])
    right = right + [shift, 0.0]
    matching = np.asarray(matching)
    is_right = matching == np.arange(len(matching))
    for i, j in enumerate(matching):
        axes.plot(
            *np.array([left[i], right[j]]).T,
            color=BLUE if is_right[i] else VERMILION,
            linestyle="-" if is_right[i] else "--",
            linewidth=0.9,
            zorder=2,
        )
    for frame in (left, right):
        axes.scatter(*frame.T, s=16, color="0.15", zorder=3)
    wrong = right[matching[~is_right]]
    axes.scatter(*wrong.T, s=46, marker="x", color=VERMILION, zorder=4)
    counts = f"{is_right.sum()} right, {(~is_right).sum()} wrong"
    axes.set_title(f"{title}: {counts}" if title else counts, fontsize=10)
    axes.set_aspect("equal")
    axes.invert_yaxis()
    axes.set_axis_off()
    return axes
