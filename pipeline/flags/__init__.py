"""The command line: its options, and the words that no parser knows."""
