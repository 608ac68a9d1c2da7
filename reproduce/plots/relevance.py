"""Pictures of probabilities of grades: how often documents have them."""

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from permatch.plots.matching import BLUE, GREEN, VERMILION, new_axes

if TYPE_CHECKING:
    from matplotlib.axes import Axes

#: Label, colour, marker and line style of the methods that are drawn.
STYLES = {
    "shares": ("training shares", VERMILION, "s", "--"),
    "learned": ("counts learned", BLUE, "o", "-"),
    "calibrated": ("calibrated on held-out lists", GREEN, "^", ":"),
}

#: Documents that a bin needs to be drawn.
FEWEST = 50


def relevance_curves(
    lines: Iterable[Mapping[str, Any]], task: str, event: str, ax: "Axes | None" = None
) -> "Axes":
    """Draw the share of documents against the probability; bars are standard errors.

    Bins of fewer than `FEWEST` documents are left out.

    Parameters
    ----------
    lines : iterable of dict
        As from `relevance.summarise`.
    task, event : str
        What is shown.

    Examples
    --------
    >>> from matplotlib.figure import Figure
    >>> one = {"count": 90, "predicted": 0.2, "observed": 0.3, "error": 0.1}
    >>> line = {"task": "short", "event": "relevant", "method": "learned", "bins": [one]}
    >>> axes = relevance_curves([line], "short", "relevant", Figure().subplots())
    >>> axes.get_legend_handles_labels()[1]
    ['counts learned']
    """
    axes = new_axes(ax)
    axes.plot([0, 1], [0, 1], color="0.7", linewidth=0.8, zorder=1)
    for line in lines:
        if (line["task"], line["event"]) != (task, event) or line["method"] not in STYLES:
            continue
        label, color, marker, style = STYLES[line["method"]]
        bins = [own for own in line["bins"] if own["count"] >= FEWEST]
        axes.errorbar(
            [own["predicted"] for own in bins],
            [own["observed"] for own in bins],
            yerr=[own["error"] for own in bins],
            color=color,
            marker=marker,
            markersize=4,
            linestyle=style,
            linewidth=1.2,
            elinewidth=0.8,
            label=label,
        )
    axes.set(xlim=(0, 1), ylim=(0, 1), xlabel="predicted probability", ylabel="share")
    axes.set_aspect("equal")
    return axes
