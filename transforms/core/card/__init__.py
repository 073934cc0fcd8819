"""What a publisher says about a dataset, and the files that tell it to other programs."""
