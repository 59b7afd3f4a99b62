# Versions 0 to 0. Made from the schemas by "make schemas".
from fastpath.messages.layout import Message

class ZkMigrationStateRecord(Message):
    zk_migration_state: int
    def __init__(self, *, zk_migration_state: int = ...) -> None: ...
