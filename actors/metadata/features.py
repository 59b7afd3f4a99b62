"""Names of features that brokers look up in the image, beside the `metadata.format` of the dialects."""

GROUP_VERSION = "group.version"
"""The feature of groups. Level 1: members may use the protocol of KIP-848. Level 0: there are classic groups only."""
GROUP_VERSIONS = (0, 1)
"""The lowest and the highest level of group.version that this software supports."""
SHARE_VERSION = "share.version"
"""The feature of share groups. Level 1: there may be share groups (KIP-932). Level 0: there are none."""
SHARE_VERSIONS = (0, 1)
"""The lowest and the highest level of share.version that this software supports."""
STREAMS_VERSION = "streams.version"
"""The feature of streams groups. Level 1: members may use the protocol of KIP-1071. Level 0: there are no streams
groups."""
STREAMS_VERSIONS = (0, 1)
"""The lowest and the highest level of streams.version that this software supports."""
TRANSACTION_VERSION = "transaction.version"
"""The feature of transactions. Level 0: as before KIP-890. 1: `__transaction_state` has values of version 1. 2: each
end of a transaction raises the epoch, and leaders add their partitions themselves."""
TRANSACTION_VERSIONS = (0, 2)
"""The lowest and the highest level of transaction.version that this software supports."""
