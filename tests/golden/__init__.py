"""Golden conversions: the digest of every file that `convert` publishes."""
