"""Arrays in, floats out: how good predictions are."""

from permatch.metrics.calibration import Calibration, calibration
from permatch.metrics.matching import hamming_loss

__all__ = ["Calibration", "calibration", "hamming_loss"]
