"""CPUs that the job may use."""
