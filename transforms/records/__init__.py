"""Records of datasets: index, reuse, records as images, comparison, random access."""
