"""What the commands share: options, the terminal, steps and tables."""
