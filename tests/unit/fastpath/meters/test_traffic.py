"""What comes into topics and leaves them: of one, and of all, those that are gone among them."""

from fastpath.meters.traffic import CRC, MAGIC, SEQUENCE, UNKEYED, Traffic


def test_a_topic_counts_for_itself_and_for_all() -> None:
    whole = Traffic()
    one, other = Traffic(whole), Traffic(whole)
    one.produced(100, 3)
    other.produced(50, 1)
    one.refused(7)
    one.fetched(40, False, False, False)
    one.fetched(30, True, False, False)
    other.fetched(20, False, True, True)
    other.fetched(10, False, True, False)
    other.replicated(5, True)
    other.replicated(6, False)
    assert (one.produces, one.failed_produces, one.bytes_in, one.messages_in, one.bytes_rejected) == (2, 1, 100, 3, 7)
    assert (one.fetches, one.failed_fetches, one.bytes_out, one.replication_bytes_out) == (2, 1, 70, 0)
    assert (other.bytes_out, other.replication_bytes_out, other.reassignment_bytes_out) == (0, 30, 20)
    assert (other.replication_bytes_in, other.reassignment_bytes_in) == (11, 5)
    del one
    assert (whole.produces, whole.bytes_in, whole.messages_in, whole.fetches, whole.bytes_out) == (3, 150, 4, 4, 70)
    assert (whole.replication_bytes_in, whole.replication_bytes_out, whole.bytes_rejected) == (11, 30, 7)


def test_what_is_wrong_with_records() -> None:
    whole = Traffic()
    one = Traffic(whole)
    for what in (CRC, CRC, CRC, MAGIC, MAGIC, SEQUENCE, UNKEYED):
        one.wrong(what)
    assert (whole.wrong_crc, whole.wrong_magic, whole.wrong_sequence, whole.unkeyed) == (3, 2, 1, 1)
