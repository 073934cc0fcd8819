"""Tests of `transforms.records`."""
