"""Keys and values as typed Arrow columns, by the schemas whose ids they begin with."""
