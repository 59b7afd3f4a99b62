"""The columns that hold the metadata image, and metadata records in bulk."""
