"""``permatch match``: learn to match from labelled edge tables, and use the models."""
