"""Unit tests of the quorum's rules."""
