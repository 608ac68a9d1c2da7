"""Pictures of linking boxes: a measure by the gap between frames.

All draw on `ax`, by default on a new figure, and return what they drew on.
"""

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from permatch.plots.matching import BLUE, GREEN, VERMILION, new_axes

if TYPE_CHECKING:
    from matplotlib.axes import Axes

#: Label, colour and marker of the methods.
TRACKING_STYLES = {
    "iou": ("IoU + Hungarian", VERMILION, "s"),
    "logistic": ("logistic regression + assignment", GREEN, "^"),
    "permatch": ("permatch", BLUE, "o"),
}

_LABELS = {"f1": "F1", "brier": "Brier score", "log_loss": "log-loss"}
_SHIFT = 0.12


def measure_by_gap(
    lines: Iterable[Mapping[str, Any]], measure: str, ax: "Axes | None" = None
) -> "Axes":
    """Draw a measure of every method against the gap; bars are spreads over repeats.

    Parameters
    ----------
    lines : iterable of dict
        Of one task, as from `tracking_summary.summarise`.
    measure : str
        What to draw.

    Examples
    --------
    >>> from matplotlib.figure import Figure
    >>> f1 = {"mean": 0.9, "spread": 0.1, "n_repeats": 2}
    >>> axes = measure_by_gap(
    ...     [{"gap": 5, "method": "iou", "f1": f1}], "f1", Figure().subplots()
    ... )
    >>> axes.get_ylabel()
    'F1'
    """
    axes = new_axes(ax)
    lines = list(lines)
    gaps = sorted({line["gap"] for line in lines})
    for k, (method, (label, color, marker)) in enumerate(TRACKING_STYLES.items()):
        known = [line for line in lines if line["method"] == method and line[measure]]
        if not known:
            continue
        places = np.array([gaps.index(line["gap"]) for line in known], dtype=float)
        axes.errorbar(
            places + _SHIFT * (k - 1),
            [line[measure]["mean"] for line in known],
            yerr=[line[measure]["spread"] or 0.0 for line in known],
            color=color,
            marker=marker,
            linestyle="none",
            label=label,
            markersize=6,
            elinewidth=1.0,
            capsize=3,
        )
    axes.set(xlabel="gap between the frames", ylabel=_LABELS.get(measure, measure))
    axes.set_xticks(range(len(gaps)), [str(gap) for gap in gaps])
    axes.set_xlim(-0.5, len(gaps) - 0.5)
    axes.set_ylim(bottom=0.0)
    axes.grid(alpha=0.25, axis="y")
    if axes.has_data():
        axes.legend(frameon=False, loc="best")
    return axes
