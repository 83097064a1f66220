"""Import downloaded exports (mail, chat, bank, calendar, health) into the record store."""
