# Made from the schemas by "make schemas".
from actors.wire.schemas.share.ShareSnapshotKey import ShareSnapshotKey as ShareSnapshotKey
from actors.wire.schemas.share.ShareSnapshotValue import ShareSnapshotValue as ShareSnapshotValue
from actors.wire.schemas.share.ShareUpdateKey import ShareUpdateKey as ShareUpdateKey
from actors.wire.schemas.share.ShareUpdateValue import ShareUpdateValue as ShareUpdateValue
