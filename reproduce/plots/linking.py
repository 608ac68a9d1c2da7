"""Pictures of links: how often pairs of some probability are links."""

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from permatch.plots.matching import BLUE, GREEN, VERMILION, new_axes
from reproduce.experiments.dblp_acm import reliability

if TYPE_CHECKING:
    from matplotlib.axes import Axes

#: Label, colour, marker and line style of the methods that have probabilities.
LINK_STYLES = {
    "classifier": ("classifier", VERMILION, "s", "--"),
    "link": ("pm.link, no labels", BLUE, "o", "-"),
    "calibrated": ("pm.link, logit calibrated", GREEN, "^", "-."),
    "learned": ("pm.link, features learned", "0.35", "D", ":"),
}


def reliability_curve(
    rows: Iterable[Mapping[str, Any]], protocol: str, ax: "Axes | None" = None
) -> "Axes":
    """Draw the share of links against the probability, over the plausible pairs.

    Parameters
    ----------
    rows : iterable of dict
        As from `dblp_acm.run`.
    protocol : str
        The splits to be shown.

    Examples
    --------
    >>> from matplotlib.figure import Figure
    >>> bins = [[0] * 9 + [4], [0] * 9 + [3.8], [0] * 9 + [4]]
    >>> row = {"protocol": "entities", "method": "link", "bins": bins}
    >>> axes = reliability_curve([row], "entities", Figure().subplots())
    >>> axes.get_legend_handles_labels()[1]
    ['pm.link, no labels']
    """
    axes = new_axes(ax)
    rows = [dict(row) for row in rows]
    axes.plot([0, 1], [0, 1], color="0.7", linewidth=0.8, zorder=1)
    for method, (label, color, marker, style) in LINK_STYLES.items():
        counts, chances, links = reliability(rows, protocol, method)
        seen = counts > 0
        if not seen.any():
            continue
        n = counts[seen]
        share = links[seen] / n
        # With two links and two others added, a bin of few pairs does not look certain.
        shrunk = (links[seen] + 2.0) / (n + 4.0)
        axes.errorbar(
            chances[seen] / n,
            share,
            yerr=np.sqrt(shrunk * (1.0 - shrunk) / (n + 4.0)),
            color=color,
            marker=marker,
            linestyle=style,
            label=label,
            markersize=4.5,
            elinewidth=0.8,
        )
    axes.set(xlabel="probability given", ylabel="share that are links")
    axes.set(xlim=(-0.02, 1.02), ylim=(-0.02, 1.02))
    axes.grid(alpha=0.25)
    if axes.get_legend_handles_labels()[1]:
        axes.legend(frameon=False, loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=2)
    return axes
