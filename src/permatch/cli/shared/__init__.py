"""Shared by the commands: options, the terminal, steps and tables."""
