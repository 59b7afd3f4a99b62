"""Kafka's access rules: which principal may do what to which resource, and how the rules decide (KIP-11, KIP-290).

Nothing here knows where a rule is stored or which API asks: the metadata image fills the index, and `node/api` asks it.
"""
