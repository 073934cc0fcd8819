"""Samples of the inputs, and hints derived from them before a job starts."""
