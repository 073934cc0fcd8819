"""Tests of `transforms.images`."""
