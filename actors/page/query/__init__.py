"""Questions in SQL, answered by a process of their own that can do nothing else."""
