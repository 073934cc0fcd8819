"""Annotation files of other tools as rows of a table, and the table of any label file."""
