"""Fixtures shared by all tests."""

import numpy as np
import pytest
from hypothesis import HealthCheck, settings

# Compiling a kernel inside an example is slow once and says nothing about the example.
settings.register_profile(
    "permatch",
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("permatch")


@pytest.fixture
def rng():
    """A generator with a fixed seed."""
    return np.random.default_rng(20090715)
