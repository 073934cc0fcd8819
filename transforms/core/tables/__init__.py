"""CSV files: lines, rows and columns."""
