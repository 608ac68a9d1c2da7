"""Tempered chains of swaps: how they start, run, mix and are reported."""
