"""Fixtures of the package's tests that these need too."""

from tests.conftest import interrupts_are_heard

__all__ = ["interrupts_are_heard"]
