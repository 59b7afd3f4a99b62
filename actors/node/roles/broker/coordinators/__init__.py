"""Where coordinators live: one machine for each partition of an internal topic that this broker leads."""
