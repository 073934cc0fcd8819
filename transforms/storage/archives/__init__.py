"""Files inside zip and tar archives, read without unpacking."""
