"""What differs between two datasets: records, classes, options, and the lines that say so."""
