# Made from the schemas by "make schemas".
from actors.wire.schemas.kip631.v28.AccessControlRecord import AccessControlRecord as AccessControlRecord
from actors.wire.schemas.kip631.v28.BrokerHeartbeatRequest import BrokerHeartbeatRequest as BrokerHeartbeatRequest
from actors.wire.schemas.kip631.v28.BrokerHeartbeatResponse import BrokerHeartbeatResponse as BrokerHeartbeatResponse
from actors.wire.schemas.kip631.v28.BrokerRecord import BrokerRecord as BrokerRecord
from actors.wire.schemas.kip631.v28.ConfigRecord import ConfigRecord as ConfigRecord
from actors.wire.schemas.kip631.v28.ControllerHeartbeatRequest import ControllerHeartbeatRequest as ControllerHeartbeatRequest
from actors.wire.schemas.kip631.v28.ControllerHeartbeatResponse import ControllerHeartbeatResponse as ControllerHeartbeatResponse
from actors.wire.schemas.kip631.v28.DeleteBrokerRecord import DeleteBrokerRecord as DeleteBrokerRecord
from actors.wire.schemas.kip631.v28.DeleteTopicRecord import DeleteTopicRecord as DeleteTopicRecord
from actors.wire.schemas.kip631.v28.IsrChangeRecord import IsrChangeRecord as IsrChangeRecord
from actors.wire.schemas.kip631.v28.PartitionRecord import PartitionRecord as PartitionRecord
from actors.wire.schemas.kip631.v28.TopicRecord import TopicRecord as TopicRecord
