"""What the kernel refuses beyond: memory, descriptors."""
