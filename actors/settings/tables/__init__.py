"""Every setting of a node, a table for each subject. `settings/nodes.py` joins them."""
