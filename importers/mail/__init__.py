"""Import mail from mbox files, Maildir folders and .eml files."""
