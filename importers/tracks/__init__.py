"""Importers of tracks that watches, phones and bicycle computers record."""
