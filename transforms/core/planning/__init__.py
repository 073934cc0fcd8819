"""Planning before any image is read: keys, joins, splits, shards."""
