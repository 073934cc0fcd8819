"""Tests of `transforms.examples`."""
