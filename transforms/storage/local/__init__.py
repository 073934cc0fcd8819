"""Local disk: globs, files that end, and files as a `Storage`; names may be untrusted."""
