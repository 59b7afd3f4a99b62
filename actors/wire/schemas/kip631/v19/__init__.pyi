# Made from the schemas by "make schemas".
from actors.wire.schemas.kip631.v19.AccessControlRecord import AccessControlRecord as AccessControlRecord
from actors.wire.schemas.kip631.v19.BrokerHeartbeatRequest import BrokerHeartbeatRequest as BrokerHeartbeatRequest
from actors.wire.schemas.kip631.v19.BrokerHeartbeatResponse import BrokerHeartbeatResponse as BrokerHeartbeatResponse
from actors.wire.schemas.kip631.v19.BrokerRecord import BrokerRecord as BrokerRecord
from actors.wire.schemas.kip631.v19.ConfigRecord import ConfigRecord as ConfigRecord
from actors.wire.schemas.kip631.v19.ControllerHeartbeatRequest import ControllerHeartbeatRequest as ControllerHeartbeatRequest
from actors.wire.schemas.kip631.v19.ControllerHeartbeatResponse import ControllerHeartbeatResponse as ControllerHeartbeatResponse
from actors.wire.schemas.kip631.v19.IsrChangeRecord import IsrChangeRecord as IsrChangeRecord
from actors.wire.schemas.kip631.v19.PartitionRecord import PartitionRecord as PartitionRecord
from actors.wire.schemas.kip631.v19.TopicRecord import TopicRecord as TopicRecord
