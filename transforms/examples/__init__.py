"""Examples: layouts, features, encoding, TFRecord framing."""
