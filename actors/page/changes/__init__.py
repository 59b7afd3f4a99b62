"""What the page changes in a running cluster, where --allow-changes was given: a file for each subject."""
