"""The answers of the HTTP API: a file for each subject. docs/page.md has the API."""
