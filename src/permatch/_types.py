"""Type aliases shared by every room."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.intp]
BoolArray = NDArray[np.bool_]

#: One (m, m) array, a stack (b, m, m), or a list of (m, m) arrays of any sizes.
Scores = ArrayLike | Sequence[ArrayLike]

#: A seed, a generator, or None for fresh entropy.
Seed = int | np.integer | np.random.Generator | None
