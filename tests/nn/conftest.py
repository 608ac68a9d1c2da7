"""Without PyTorch there is nothing to collect here but tests that are skipped."""

from importlib.util import find_spec

collect_ignore = [] if find_spec("torch") else ["checks.py"]
