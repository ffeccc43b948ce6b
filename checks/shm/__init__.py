"""Shared memory."""
