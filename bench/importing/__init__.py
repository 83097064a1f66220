"""Large exports: how much memory an import takes, and how fast it is."""
