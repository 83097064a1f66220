"""Keep connections up to date from live accounts, such as a mailbox."""
