"""``permatch link``: scored pairs to links."""
