"""Importers of browsers."""
