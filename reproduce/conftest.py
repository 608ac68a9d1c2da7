"""Modules that import PyTorch are collected where it is installed."""

from importlib.util import find_spec

collect_ignore = [] if find_spec("torch") else ["experiments/edge_network.py"]
