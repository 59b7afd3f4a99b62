"""A snapshot on its way from the leader to a replica that is too far behind (KIP-630 "FetchSnapshot").

This file alone decides which slice is requested, which slice is served, and when the log is replaced by a snapshot.

Rules:

1. The file is requested slice by slice from one leader. After a change of role or leader the transfer starts over.
2. The machine cannot read the file. The node verifies it and reports the verdict (`Raft.snapshot_received`). Only then
   is the log thrown away. What the next fetch claims becomes durable together with the file's name.
"""

from actors.raft.messages import Error, FetchSnapshotRequest, FetchSnapshotResponse, SnapshotId
from actors.raft.ready import SnapshotPart
from actors.raft.state import Core, Download
from actors.raft.voters import Voters


def begin(core: Core, snapshot: SnapshotId) -> None:
    """Start the transfer of a snapshot to which the leader refers this replica. A snapshot that holds nothing new, or
    that names an epoch which has not begun, is an error of the leader: the fetch is repeated after a pause."""
    assert core.fetching is not None
    if snapshot.end_offset <= core.high_watermark or not 0 <= snapshot.epoch <= core.epoch:
        core.fetching.due_ms = core.now_ms + core.limits.retry_backoff_ms
    else:
        core.download = Download(snapshot)


def next_request(core: Core, serial: int) -> FetchSnapshotRequest:
    """The request for the slice that follows the bytes received so far."""
    download, bytes_max = core.download, core.limits.snapshot_bytes_max
    assert download is not None
    return FetchSnapshotRequest(serial, core.me, core.epoch, download.snapshot, download.position, bytes_max)


def take(core: Core, response: FetchSnapshotResponse) -> None:
    """Write the slice that was requested. A slice that does not continue the file ends the transfer."""
    fetching, download = core.fetching, core.download
    assert fetching is not None
    assert download is not None
    end = response.position + len(response.data)
    if response.snapshot != download.snapshot or response.position != download.position or end > response.size:
        core.download = None
        fetching.due_ms = core.now_ms + core.limits.retry_backoff_ms
        return
    if not response.data and end < response.size:
        fetching.due_ms = core.now_ms + core.limits.retry_backoff_ms
        return
    download.position = end
    download.checking = end == response.size
    core.out.parts.append(SnapshotPart(download.snapshot, response.position, response.data, download.checking))


def received(core: Core, snapshot: SnapshotId, valid: bool, voters: Voters | None) -> None:
    """Take the node's verdict on the whole file, which names `voters`. A verdict on a transfer that was given up
    meanwhile is ignored."""
    download = core.download
    if download is None or not download.checking or download.snapshot != snapshot:
        return
    assert core.fetching is not None
    core.download = None
    core.fetching.due_ms = core.now_ms + (0 if valid else core.limits.retry_backoff_ms)
    if valid:
        core.log.restart_at(snapshot)
        core.history.restart_at(snapshot.end_offset, voters)
        core.count_voters()
        core.out.load_snapshot = snapshot
        core.raise_high_watermark(snapshot.end_offset)


def serve(core: Core, source: int, request: FetchSnapshotRequest) -> None:
    """Answer with the slice, or keep the request until the node has read the disk."""
    leading = core.leading
    assert leading is not None
    answer = FetchSnapshotResponse(request.serial, Error.NONE, core.me.id, core.epoch, request.snapshot)
    bytes_max = max(0, min(request.bytes_max, core.limits.snapshot_bytes_max))
    try:
        piece = core.log.reader.read_snapshot(request.snapshot, request.position, bytes_max)
    except FileNotFoundError:
        core.say(source, answer._replace(error=Error.SNAPSHOT_NOT_FOUND))
        return
    if piece is None:
        leading.park(source, request, core.now_ms + core.limits.fetch_timeout_ms, cold=True)
    elif not 0 <= request.position <= piece.size:
        core.say(source, answer._replace(error=Error.POSITION_OUT_OF_RANGE))
    else:
        core.say(source, answer._replace(size=piece.size, position=request.position, data=piece.data))
