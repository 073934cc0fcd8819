"""Tests of `transforms.selection`."""
