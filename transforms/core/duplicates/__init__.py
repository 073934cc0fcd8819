"""Exact and near-duplicates, found from fingerprints."""
