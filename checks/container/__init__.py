"""The runtime that the job is inside of."""
