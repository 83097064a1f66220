"""Import bank statements (OFX, QIF, CSV)."""
