"""Which images are kept, and where: duplicates, holdouts, shares of classes."""
