"""Marginals of partial matchings by pyehm's EHM2: rival of the frontier.

Efficient hypothesis management takes tracks one at a time and joins hypotheses that have
used the same detections so far, which is the frontier with maps in place of tables.  It
comes compiled from C++.  Its weights are products that nothing scales.

References
----------
P. Horridge, S. Maskell, "Real-time tracking of hundreds of targets with efficient exact
JPDAF implementation", Fusion (2006).
"""

import numpy as np


def why_missing() -> str:
    """Return why there is no rival, empty if there is one."""
    try:
        import pyehm.core  # noqa: F401
    except ImportError:
        return "pyehm is not installed (pip install '.[bench]')"
    return ""


def marginals(scores: np.ndarray) -> np.ndarray:
    """Return probabilities (n, k) of edges if all may stay unmatched, at score 0.

    Parameters
    ----------
    scores : ndarray of shape (n, k)
        Log-weight of each edge; ``-inf`` forbids an edge.
    """
    unmatched = np.zeros((len(scores), 1))
    with np.errstate(over="ignore"):
        return association(np.exp(np.hstack([unmatched, scores])))[:, 1:]


def association(likelihood: np.ndarray) -> np.ndarray:
    """Return association probabilities (n, k + 1) of tracks, the missed detection first.

    Parameters
    ----------
    likelihood : ndarray of shape (n, k + 1)
        At least 0; 0: not possible.
    """
    from pyehm.core import EHM2

    return EHM2().run((likelihood > 0).astype(np.int32), likelihood)
