"""Meaning as vectors: which model turns texts into them, and into which passages a text is cut.

The model is an optional extra (requirements-semantic.txt). Without it nothing here is loaded, and
there is no semantic search.
"""
