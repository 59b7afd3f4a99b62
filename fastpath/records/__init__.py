"""Record batches, their indexes and their compression."""
