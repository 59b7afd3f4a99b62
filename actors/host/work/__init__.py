"""The work beside the loop: disk, syncs, threads, locks, and the lack of any of them."""
