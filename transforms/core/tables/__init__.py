"""CSV files: lines, rows, and the columns that are found in them."""
