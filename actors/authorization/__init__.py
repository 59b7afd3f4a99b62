"""Who may do what to which resource: Kafka's access rules (KIP-11, KIP-290) and how they decide.

Nothing here knows where a rule is stored or who asks: the metadata image fills the index, and `node/api` asks it.
"""
