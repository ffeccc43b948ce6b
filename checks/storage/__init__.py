"""Where data, temporary files, caches and code lie."""
