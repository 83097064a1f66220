"""Importers of formats that change often or that nobody could compare with real exports yet."""
