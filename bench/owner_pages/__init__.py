"""Measure the owner's pages over a large installation."""
