"""The owner's pages in a real browser."""
