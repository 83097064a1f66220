"""Measure the memory and speed of importing large exports."""
