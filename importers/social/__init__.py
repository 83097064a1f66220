"""Importers of social networks."""
