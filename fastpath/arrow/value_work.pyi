"""Rows of the columns that values fill; for compiled code only."""
