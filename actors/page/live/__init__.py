"""What a running cluster is asked while the page is open."""
