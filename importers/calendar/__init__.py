"""Import calendars (iCalendar, RFC 5545)."""
