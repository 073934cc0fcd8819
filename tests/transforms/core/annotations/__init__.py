"""Tests of `transforms.core.annotations`."""
