"""The index of a shard: its table, its rows as they are written, and its check."""
