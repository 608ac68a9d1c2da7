"""Arrays in, floats out: how good predictions are."""

from permatch.metrics.calibration import Calibration, calibration
from permatch.metrics.cascade import (
    expected_reciprocal_rank,
    kendall_tau,
    reciprocal_rank,
)
from permatch.metrics.matching import hamming_loss
from permatch.metrics.ranking import average_precision, ndcg, precision_at
from permatch.metrics.significance import (
    PairedTest,
    holm,
    randomisation_test,
)

__all__ = [
    "Calibration",
    "PairedTest",
    "average_precision",
    "calibration",
    "expected_reciprocal_rank",
    "hamming_loss",
    "holm",
    "kendall_tau",
    "ndcg",
    "precision_at",
    "randomisation_test",
    "reciprocal_rank",
]
