"""The files of a finished dataset, and the counts in them."""
