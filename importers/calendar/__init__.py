"""Calendars and address books (iCalendar, vCard)."""
