"""The features of an Example: layouts, cells, columns and boxes."""
