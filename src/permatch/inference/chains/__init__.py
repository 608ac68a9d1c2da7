"""Tempered chains of swaps: how they start, walk, mix and are told of."""
