"""Names of features that brokers look up in the image, beside the `metadata.format` of the dialects."""

GROUP_VERSION = "group.version"
"""1: members may use the protocol of KIP-848. 0: there are classic groups only."""
GROUP_VERSIONS = (0, 1)
"""Levels of it that this software supports."""
SHARE_VERSION = "share.version"
"""1: there may be share groups (KIP-932). 0: there are none."""
SHARE_VERSIONS = (0, 1)
"""Levels of it that this software supports."""
STREAMS_VERSION = "streams.version"
"""1: members may use the protocol of KIP-1071. 0: there are no streams groups."""
STREAMS_VERSIONS = (0, 1)
"""Levels of it that this software supports."""
TRANSACTION_VERSION = "transaction.version"
"""0: as before KIP-890. 1: `__transaction_state` has values of version 1. 2: each end of a transaction raises the epoch, and
leaders add their partitions themselves."""
TRANSACTION_VERSIONS = (0, 2)
"""Levels of it that this software supports."""
