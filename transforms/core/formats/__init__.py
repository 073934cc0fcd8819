"""Headers, tags and orientation of image files, read before any pixel is decoded."""
