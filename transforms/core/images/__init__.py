"""Pixels: checked, decoded, changed, encoded, hashed, and as a model takes them."""
