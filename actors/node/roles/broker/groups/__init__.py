"""The group coordinator in its host, for all kinds of groups."""
