"""Limits the damage of a decoder that crashes or hangs to one image."""
