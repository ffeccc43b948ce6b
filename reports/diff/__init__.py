"""The renderings of what differs between two reports: one file per format, each a pure function of a Comparison and a Look."""
