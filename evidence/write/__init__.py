"""The only writers of personal rows: record, change entry, search text and counters together."""
