"""Importers of Google Takeout."""
