"""File access: local files, Google Cloud Storage, and Beam's file systems."""
