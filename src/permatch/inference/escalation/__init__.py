"""From cheap to dear: how `auto` answers graphs beyond the exact sizes."""
