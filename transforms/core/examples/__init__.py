"""Examples: made from images or rows, and read back from TFRecord files."""
