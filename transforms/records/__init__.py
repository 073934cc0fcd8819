"""Records of datasets: index, other datasets as inputs, comparison, random access."""
