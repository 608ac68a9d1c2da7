"""What a part of the training graphs says about a model."""

from dataclasses import dataclass

import numpy as np

from permatch._types import FloatArray
from permatch._validation import MAX_SCORE
from permatch.errors import PrecisionError
from permatch.inference import InferenceResult


@dataclass(frozen=True, eq=False)
class Expectation:
    """Log-partitions of graphs, and their expected features added up."""

    log_partition: FloatArray  # (b,); what is left open by incomplete labels is subtracted
    total: FloatArray  # expected features, likewise, (n_parameters,)
    results: list[InferenceResult]
    bounds: FloatArray | None  # on the error of `total`, if the engine knows any


@dataclass(frozen=True, eq=False)
class Curved:
    """Second derivatives times vectors, and how they were computed."""

    product: FloatArray  # (n_parameters, k)
    methods: set[str]


def check_scores(scores: FloatArray) -> None:
    """Refuse scores beyond float64."""
    if not np.abs(scores).max(initial=0.0) < MAX_SCORE:  # false for NaN too
        raise PrecisionError(
            "scores must stay finite during fitting; features times coefficients exceed "
            "float64. Divide the features by a large number."
        )
