"""Type aliases shared by every room."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.intp]
BoolArray = NDArray[np.bool_]

#: An array (n, k), a stack (b, n, k), a sparse array, `EdgeScores`, or a list of these.
Scores = ArrayLike | Sequence[Any] | Any

#: A seed, a generator, or None for fresh entropy.
Seed = int | np.integer | np.random.Generator | None
