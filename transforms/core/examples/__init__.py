"""Examples: made of images or rows, and read back from TFRecord files."""
