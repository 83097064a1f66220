"""Measure the first sync of a large mailbox beside a client that only downloads it."""
