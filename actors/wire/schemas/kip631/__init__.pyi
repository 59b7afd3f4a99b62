# Made from the schemas by "make schemas".
from actors.wire.schemas.kip631.AlterIsrRequest import AlterIsrRequest as AlterIsrRequest
from actors.wire.schemas.kip631.AlterIsrResponse import AlterIsrResponse as AlterIsrResponse
