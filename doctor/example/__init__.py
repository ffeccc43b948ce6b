"""What `--example` examines."""
