"""Decoders that crash or hang cost one image, not the run."""
