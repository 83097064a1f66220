"""Real exports into the store: one file per kind, and what all kinds share."""
