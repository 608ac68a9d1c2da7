"""Independent draws: proposals, when to stop, and what is made of them."""
