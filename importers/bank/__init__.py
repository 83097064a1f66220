"""Bank statements in the formats that banks offer."""
