"""The commands: one file each. Only these print."""
