"""The commands: options, the graph, launching. The flow itself is in `graph.py`."""
