"""Options: declarations, parsers, the config file, generated documents."""
