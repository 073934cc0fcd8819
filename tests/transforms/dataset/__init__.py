"""Tests of `transforms.write_dataset`."""
