"""Importers of what was watched, heard, searched and ordered."""
