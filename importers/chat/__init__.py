"""Import chats from Slack, Telegram and WhatsApp under one declaration."""
