"""Mail, from whatever it was kept in."""
