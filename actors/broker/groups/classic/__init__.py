"""Groups in which a member assigns: the classic protocol of consumers, and of Connect."""
