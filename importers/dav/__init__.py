"""Calendars and contacts on CalDAV and CardDAV servers."""
