"""How far several Markov chains agree, and how many independent draws they are worth.

Series come as (n_chains, n) or (n_chains, n, k): k quantities followed by every chain.
"""

import numpy as np

from permatch._types import FloatArray

# Variances this far below the squares of the numbers themselves are rounding.
_ROUNDING = 1e-26


def split_r_hat(series: FloatArray) -> FloatArray:
    """Compare the chains, and their halves, with each other.

    The square root of the ratio of the variance of all draws together to the variance
    within half a chain: 1 if all halves tell the same, large if some chain stays elsewhere.

    Parameters
    ----------
    series : ndarray of shape (n_chains, n) or (n_chains, n, k)
        What the chains passed through, burn-in left out; n at least 4.

    Returns
    -------
    ndarray of shape () or (k,)
        One number per quantity; 1 for one that never changes, ``inf`` for one that changes
        between halves only.

    References
    ----------
    A. Gelman et al., "Bayesian Data Analysis", 3rd edition (2013), section 11.4.

    Examples
    --------
    >>> import numpy as np
    >>> together = np.random.default_rng(0).normal(size=(4, 1000))
    >>> bool(split_r_hat(together) < 1.01)
    True
    >>> apart = together + np.arange(4)[:, None]
    >>> bool(split_r_hat(apart) > 1.5)
    True
    """
    half = series.shape[1] // 2
    halves = np.concatenate([series[:, :half], series[:, -half:]])
    within = halves.var(axis=1, ddof=1).mean(axis=0)
    between = halves.mean(axis=1).var(axis=0, ddof=1)
    # Sums of equal numbers differ in their last bits.
    noise = _ROUNDING * (series**2).max(axis=(0, 1))
    within = np.where(within > noise, within, 0.0)
    between = np.where(between > noise, between, 0.0)
    with np.errstate(divide="ignore", invalid="ignore"):
        r_hat = np.sqrt((half - 1) / half + between / within)
    return np.where(between == 0.0, 1.0, r_hat)


def effective_samples(series: FloatArray) -> FloatArray:
    """Count the independent draws whose mean would be as precise.

    Autocorrelations are summed by Geyer's initial monotone sequence: over pairs of
    neighbouring lags, as long as the pairs stay positive, none counted above the one before
    it.  Disagreement between chains counts as correlation at every lag.

    Parameters
    ----------
    series : ndarray of shape (n_chains, n) or (n_chains, n, k)
        What the chains passed through, burn-in left out; n at least 4.

    Returns
    -------
    ndarray of shape () or (k,)
        One number per quantity, ``n_chains * n`` for one that never changes; never above
        ``n_chains * n * log10(n_chains * n)``, which draws that alternate can reach.

    References
    ----------
    C. Geyer, "Practical Markov chain Monte Carlo", Statistical Science 7 (1992).
    A. Vehtari et al., "Rank-normalization, folding, and localization: an improved R-hat",
    Bayesian Analysis 16 (2021).

    Examples
    --------
    >>> import numpy as np
    >>> independent = np.random.default_rng(0).normal(size=(4, 1000))
    >>> bool(abs(effective_samples(independent) / 4000 - 1) < 0.1)
    True
    """
    n_chains, n = series.shape[:2]
    wide = series.reshape(n_chains, n, -1)
    covariances = autocovariances(wide).mean(axis=0)  # (n, k)
    within = covariances[0] * n / (n - 1)
    spread = within * (n - 1) / n
    if n_chains > 1:
        spread = spread + wide.mean(axis=1).var(axis=0, ddof=1)
    is_moving = spread > _ROUNDING * (wide**2).max(axis=(0, 1))
    safe = np.where(is_moving, spread, 1.0)
    correlations = 1.0 - (within - covariances * (n / (n - 1))) / safe
    correlations[0] = 1.0
    n_pairs = n // 2
    pairs = correlations[: 2 * n_pairs].reshape(n_pairs, 2, -1).sum(axis=1)
    pairs = np.minimum.accumulate(pairs, axis=0)
    times = -1.0 + 2.0 * np.maximum(pairs, 0.0).sum(axis=0)
    n_draws = n_chains * n
    times = np.maximum(times, 1.0 / np.log10(max(n_draws, 10)))
    counts = np.where(is_moving, n_draws / times, float(n_draws))
    return counts.reshape(series.shape[2:])


def autocovariances(series: FloatArray) -> FloatArray:
    """Return the autocovariance of every series (c, n, k) at lags 0 .. n - 1, by FFT."""
    n = series.shape[1]
    length = 1 << (2 * n - 1).bit_length()
    spectrum = np.fft.rfft(series - series.mean(axis=1, keepdims=True), length, axis=1)
    power = spectrum.real**2 + spectrum.imag**2
    return np.fft.irfft(power, length, axis=1)[:, :n] / n
