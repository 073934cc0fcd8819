"""Running a command: processes, the lock, progress and the terminal."""
