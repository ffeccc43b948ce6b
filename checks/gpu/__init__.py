"""GPUs, and whether the job can reach them."""
