"""Encrypted backup of the whole installation in one file, and its restore."""
