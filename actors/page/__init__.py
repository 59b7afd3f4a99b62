"""A page that shows a cluster and its history in a browser: `rayft ui`. Nodes and `import rayft` load nothing of it."""
