"""Images: headers, the check, pixels, masks, embeddings. Without Beam and files."""
