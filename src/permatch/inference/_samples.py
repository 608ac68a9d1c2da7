"""What everything that draws matchings of one graph offers."""

from typing import Protocol

import numpy as np

from permatch._types import IntArray


class Samples(Protocol):
    """A source of samples of one graph.

    Examples
    --------
    >>> import numpy as np
    >>> from permatch.inference import MatchingSamples
    >>> source: Samples = MatchingSamples.build(np.zeros((3, 3)))
    >>> source.sample(2, np.random.default_rng(0)).shape
    (2, 3)
    """

    def sample(self, n: int, rng: np.random.Generator, n_jobs: int = 1) -> IntArray:
        """Draw `n` matchings, (n, m); the same for every `n_jobs`."""
        ...
