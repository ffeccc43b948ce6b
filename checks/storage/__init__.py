"""Where data, code and results lie, and how fast that is."""
