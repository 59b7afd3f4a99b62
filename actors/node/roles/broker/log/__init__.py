"""The broker's log directories: logs opened, flushed, cleaned, moved and read again."""
