"""One file per tool, each with the same parts in the same order."""
