"""What a model reads: one pure renderer per tool, from structuredContent to one JSON object."""
