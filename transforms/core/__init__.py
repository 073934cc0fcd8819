"""Pure functions and records; nothing here imports Apache Beam."""
