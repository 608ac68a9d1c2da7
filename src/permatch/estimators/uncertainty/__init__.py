"""How sure fitted coefficients are, and what that means for predictions."""
