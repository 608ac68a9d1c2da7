"""The paper's experiments, repeated with permatch: ``python -m reproduce --help``."""
