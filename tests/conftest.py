"""Fixtures shared by all tests."""

import signal

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

#: Tests that run experiments, or start commands and browsers: too slow for a quick check.
SLOW = (
    "reproduce/",
    "tests/cli/",
    "tests/pages/",
    "tests/estimators/test_map_matching_noisy.py",
    "tests/test_examples.py",
    "tests/test_readme.py::test_commands",
    "tests/test_wheel.py",
)


def pytest_collection_modifyitems(items):
    """Mark the slow tests."""
    for item in items:
        if item.nodeid.startswith(SLOW):
            item.add_marker("slow")


@pytest.fixture
def rng():
    """A generator with a fixed seed."""
    return np.random.default_rng(20090715)


@pytest.fixture(scope="session", autouse=True)
def interrupts_are_heard():
    """Take interrupts as at a terminal: jobs in the background are told to ignore them."""
    before = signal.getsignal(signal.SIGINT)
    if before is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)
