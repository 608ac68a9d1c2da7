"""Results to self-contained HTML."""
