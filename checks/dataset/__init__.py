"""The dataset that the job loads."""
