"""Tests of `transforms.report`."""
