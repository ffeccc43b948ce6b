"""Storage: where data, temporary files and caches lie."""
