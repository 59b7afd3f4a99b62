"""The error in starting, changing or stopping a cluster."""


class ClusterError(Exception):
    """A cluster does not start, or does not do what was asked. The message is one sentence."""
