"""Every setting of a node: its name, type, default and what it is checked for."""
