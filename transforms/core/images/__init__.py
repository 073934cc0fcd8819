"""Checks, decodes, changes, encodes and hashes pixels, and prepares them for models."""
