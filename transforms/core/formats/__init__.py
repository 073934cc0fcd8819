"""Image files before any pixel is decoded: headers, tags and orientation."""
