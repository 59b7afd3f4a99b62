"""What `ops/` has for systemd, containers and Kubernetes."""
