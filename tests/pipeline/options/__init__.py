"""Tests of `pipeline.options`."""
