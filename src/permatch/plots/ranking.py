"""Pictures of rankings compared."""

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from permatch.plots.matching import BLUE, GREY, VERMILION, new_axes

if TYPE_CHECKING:
    from matplotlib.axes import Axes


# Of more queries, the outline of the bars is drawn in one piece.
_MOST_BARS = 300


def query_differences(
    differences: ArrayLike,
    label: str,
    baseline: str,
    *,
    measure: str = "the measure",
    interval: tuple[float, float] | None = None,
    ax: "Axes | None" = None,
) -> "Axes":
    """Draw by how much a method beats another on every query, in order of size.

    Parameters
    ----------
    differences : array of shape (q,)
        A measure of the method less that of the baseline.
    label, baseline : str
        What the two are called.
    measure : str
        What is measured.
    interval : pair of float, optional
        Of the mean difference, drawn as a band.
    ax : matplotlib Axes, optional
        Axes to draw on; default: a new figure.

    Returns
    -------
    matplotlib Axes
        The axes.

    Examples
    --------
    >>> from matplotlib.figure import Figure
    >>> axes = query_differences([0.2, -0.1, 0.0], "new", "old", ax=Figure().subplots())
    >>> axes.has_data()
    True
    """
    axes = new_axes(ax)
    values = np.sort(np.asarray(differences, dtype=float))[::-1]
    places = np.arange(1, len(values) + 1)
    n_equal = int((values == 0).sum())
    # A dollar sign would begin a formula.
    label, baseline = (name.replace("$", r"\$") for name in (label, baseline))
    for chosen, color, name in (
        (values > 0, BLUE, f"won by {label}: {(values > 0).sum()}"),
        (values < 0, VERMILION, f"won by {baseline}: {(values < 0).sum()}"),
    ):
        if len(values) > _MOST_BARS:
            heights = np.where(chosen, values, 0.0)
            axes.fill_between(places, heights, step="mid", color=color, label=name)
        else:
            axes.bar(places[chosen], values[chosen], width=0.9, color=color, label=name)
    mean = float(values.mean())
    axes.axhline(
        mean, color="0.15", linewidth=1.2, label=f"mean {mean:+.4f}, {n_equal} equal"
    )
    if interval is not None:
        axes.axhspan(*interval, color="0.15", alpha=0.15, linewidth=0)
    axes.axhline(0.0, color=GREY, linewidth=0.8)
    axes.set(
        xlabel="test queries, sorted by difference",
        ylabel=f"difference of {measure}",
        title=f"{label} minus {baseline}",
    )
    axes.title.set_fontsize("medium")
    axes.grid(alpha=0.25, axis="y")
    axes.legend(frameon=False, fontsize="small")
    return axes
