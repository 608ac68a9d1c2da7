"""Ranked lists: where documents stand, by levels of positions."""
