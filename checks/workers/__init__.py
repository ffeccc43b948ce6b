"""The DataLoader's worker processes."""
