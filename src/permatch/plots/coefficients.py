"""A picture of how sure coefficients are."""

from typing import TYPE_CHECKING

import numpy as np

from permatch.estimators.uncertainty.posterior import Posterior
from permatch.plots.matching import BLUE, GREY, new_axes

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def coefficients(
    posterior: Posterior, *, alpha: float = 0.05, ax: "Axes | None" = None
) -> "Axes":
    """Draw every coefficient with its interval, the first at the top.

    Parameters
    ----------
    posterior : Posterior
        The result of `inference`.
    alpha : float
        Probability outside the intervals; 0.05 gives 95 % intervals.
    ax : matplotlib Axes, optional
        Axes to draw on; default: a new figure.

    Returns
    -------
    matplotlib Axes
        The axes.

    Examples
    --------
    >>> import numpy as np
    >>> import permatch as pm
    >>> from matplotlib.figure import Figure
    >>> rng = np.random.default_rng(0)
    >>> X, y = rng.normal(size=(40, 2)), rng.integers(3, size=40)
    >>> model = pm.RankMatch(alpha=0.1).fit(X, y, group=[8] * 5)
    >>> posterior = model.inference(X, y, group=[8] * 5, cov_type="laplace")
    >>> axes = coefficients(posterior, ax=Figure().subplots())
    >>> [label.get_text() for label in axes.get_yticklabels()]
    ['x1', 'x2']
    """
    axes = new_axes(ax)
    places = np.arange(len(posterior.params))
    reach = np.nan_to_num(posterior.conf_int(alpha)[:, 1] - posterior.params)
    axes.axvline(0.0, color=GREY, linestyle=":")
    axes.errorbar(posterior.params, places, xerr=reach, color=BLUE, fmt="o", capsize=3)
    axes.set_yticks(places, list(posterior.names))
    axes.invert_yaxis()
    axes.set_xlabel(f"coefficient, {100 * (1 - alpha):g} % {posterior.interval_name}")
    return axes
