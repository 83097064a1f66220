"""Seeded faults in the wall, each of which some test must catch: ``make mutants``."""
