"""Tests of `transforms.labels`."""
