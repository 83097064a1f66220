"""Importers of notes."""
