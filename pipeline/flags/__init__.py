"""The command line: its options and unknown arguments."""
