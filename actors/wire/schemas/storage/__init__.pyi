# Made from the schemas by "make schemas".
from actors.wire.schemas.storage.ConsumerProtocolAssignment import ConsumerProtocolAssignment as ConsumerProtocolAssignment
from actors.wire.schemas.storage.ConsumerProtocolSubscription import ConsumerProtocolSubscription as ConsumerProtocolSubscription
from actors.wire.schemas.storage.ControlRecordTypeSchema import ControlRecordTypeSchema as ControlRecordTypeSchema
from actors.wire.schemas.storage.DefaultPrincipalData import DefaultPrincipalData as DefaultPrincipalData
from actors.wire.schemas.storage.EndTxnMarker import EndTxnMarker as EndTxnMarker
from actors.wire.schemas.storage.KRaftVersionRecord import KRaftVersionRecord as KRaftVersionRecord
from actors.wire.schemas.storage.LeaderChangeMessage import LeaderChangeMessage as LeaderChangeMessage
from actors.wire.schemas.storage.ProducerSnapshot import ProducerSnapshot as ProducerSnapshot
from actors.wire.schemas.storage.QuorumStateData import QuorumStateData as QuorumStateData
from actors.wire.schemas.storage.SnapshotFooterRecord import SnapshotFooterRecord as SnapshotFooterRecord
from actors.wire.schemas.storage.SnapshotHeaderRecord import SnapshotHeaderRecord as SnapshotHeaderRecord
from actors.wire.schemas.storage.VotersRecord import VotersRecord as VotersRecord
