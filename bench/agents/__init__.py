"""Measure how many calls and bytes a scripted agent needs to answer the demo questions."""
