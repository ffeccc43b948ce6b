"""The folder that a command has on PYTHONPATH while it is observed; see observing.py."""
