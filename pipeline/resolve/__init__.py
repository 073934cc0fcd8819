"""Resolves flags and inputs to a valid configuration."""
