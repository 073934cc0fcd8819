"""The steps of the graph: Beam transforms around the pure functions of `transforms.core`."""
