"""What authors of importers use: ``pdpp-importer new``, and the tests that every importer passes."""
