"""What the inputs say before a job starts: samples and hints."""
