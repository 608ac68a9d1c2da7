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
settings.register_profile(
    "permatch-quick", settings.get_profile("permatch"), max_examples=25
)
settings.load_profile("permatch")

#: Tests that run experiments, rivals, commands, browsers or long chains, or that take more
#: than a second: too slow for a quick check.
SLOW = (
    "reproduce/",
    "tests/benchmarks/",
    "tests/cli/",
    "tests/pages/",
    "tests/estimators/test_map_matching.py::test_planted_coefficients",
    "tests/estimators/test_map_matching_noisy.py",
    "tests/inference/test_coverage.py",
    "tests/inference/test_edge_chain.py",
    "tests/inference/test_mixed.py::test_errors_of_wide_components",
    "tests/inference/test_swap_chain.py",
    "tests/test_examples.py",
    "tests/test_files.py::test_newlines_without_end",
    "tests/test_graphs.py::test_a_hundred_thousand_nodes",
    "tests/test_readme.py::test_commands",
    "tests/test_wheel.py",
)


def is_quick(config):
    """Return whether slow tests are left out."""
    return "not slow" in config.option.markexpr


def pytest_configure(config):
    """Draw fewer examples for a quick check."""
    if is_quick(config):
        settings.load_profile("permatch-quick")


def pytest_ignore_collect(collection_path, config):
    """Do not import files of slow tests that will not run: it takes seconds."""
    name = collection_path.relative_to(config.rootpath).as_posix()
    is_slow = name in SLOW or f"{name}/" in SLOW
    return True if is_slow and is_quick(config) else None


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
