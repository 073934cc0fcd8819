"""Splits and shards with exact numbers of records, found from counts of hashes."""
