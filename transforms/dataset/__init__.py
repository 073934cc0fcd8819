"""A dataset: manifest, ledger, names of files, checks, metadata for readers."""
