"""dl-doctor: says where a deep-learning job is about to start whether it would break or crawl there, and what mends it.

Importing this package loads nothing else: `__main__` cleans the import path before the first dependency is needed.
"""

__version__ = "0.1.0"
