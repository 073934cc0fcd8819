"""The files of a finished dataset and what they count."""
