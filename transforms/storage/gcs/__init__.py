"""Google Cloud Storage: its client, retries and errors, and its objects as a `Storage`."""
