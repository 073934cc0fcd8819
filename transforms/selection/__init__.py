"""Which images are kept, and where: duplicates, images held out, shares of classes."""
