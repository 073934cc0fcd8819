"""Labels: their kinds, their ids, and what paths say about them."""
