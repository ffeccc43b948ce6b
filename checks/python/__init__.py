"""The examined Python and the PyTorch in it."""
