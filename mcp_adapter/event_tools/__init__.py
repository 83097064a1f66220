"""One file per tool of the advanced surface."""
