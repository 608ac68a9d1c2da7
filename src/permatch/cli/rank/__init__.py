"""``permatch rank``: learn to rank from judged lists, and use the models."""
