# Made from the schemas by "make schemas".
from actors.wire.schemas.transaction.TransactionLogKey import TransactionLogKey as TransactionLogKey
from actors.wire.schemas.transaction.TransactionLogValue import TransactionLogValue as TransactionLogValue
