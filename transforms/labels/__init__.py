"""Labels, keys and plans: tables, annotations, classes, joins, splits, shards."""
