"""Render results as text for models: one JSON object, derived from structuredContent."""
