"""Matchings from one Markov chain, for graphs too large to draw from exactly."""

from dataclasses import replace

import numpy as np

from permatch._types import IntArray, Scores, Seed
from permatch._validation import check_count, check_rng, check_scores, enough_memory
from permatch.inference.base import Job
from permatch.inference.chains.run import balanced, burn_in
from permatch.inference.swap_chain import SwapChain


def draw_chain(
    scores: Scores,
    n: int,
    *,
    thin: int = 10,
    rng: Seed = None,
    engine: SwapChain | None = None,
) -> IntArray:
    """Draw matchings, approximately and not independently, from one tempered chain.

    Parameters
    ----------
    scores : array of shape (m, m)
        Log-weight of each edge; ``-inf`` forbids an edge.
    n : int
        Number of matchings.
    thin : int
        Sweeps from one matching to the next.
    rng : int, numpy.random.Generator or None
        Seed, generator, or None for fresh entropy.
    engine : SwapChain, optional
        What the chain does in a sweep, and how many it makes first.

    Returns
    -------
    ndarray of shape (n, m)
        ``matchings[s, i]`` is the column of row i.

    Examples
    --------
    >>> import numpy as np
    >>> draw_chain(np.array([[0.0, -np.inf], [0.0, 0.0]]), 2, rng=0)
    array([[0, 1],
           [0, 1]])
    """
    one = check_scores(scores)
    n_draws = check_count(n, "n", 0)
    every = check_count(thin, "thin", 1)
    seed = int(check_rng(rng).integers(2**63))
    chain = replace(engine or SwapChain(), n_chains=1, random_state=seed)
    chain.check_size(len(one))
    weights, offsets = balanced(one[None], np.zeros(1, dtype=np.intp))
    if len(one) <= 1 or n_draws == 0:
        return np.zeros((n_draws, len(one)), dtype=np.intp)
    chains = chain.start_chains(weights[0], offsets[0], (seed, 0))
    burn_in([chains], chain.n_burned, Job())
    with enough_memory(f"an array of {n_draws} samples", 8.0 * n_draws * len(one)):
        return chains.run(0, n_draws * every, every).trace.astype(np.intp)
