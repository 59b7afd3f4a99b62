import java.util.ArrayList;
import java.util.HexFormat;
import java.util.List;
import java.util.Random;
import java.util.stream.Collectors;

import org.apache.kafka.common.Uuid;
import org.apache.kafka.coordinator.common.runtime.CoordinatorRecord;
import org.apache.kafka.coordinator.share.PersisterStateBatchCombiner;
import org.apache.kafka.coordinator.share.ShareCoordinatorRecordHelpers;
import org.apache.kafka.coordinator.share.ShareCoordinatorRecordSerde;
import org.apache.kafka.coordinator.share.ShareGroupOffset;
import org.apache.kafka.server.share.persister.PersisterStateBatch;

/**
 * Prints records of __share_group_state as Apache Kafka writes them: name, key and value in hex ("-": none); with the
 * argument `combined` what its PersisterStateBatchCombiner makes of random batches: start offset, known, added, result.
 * java -cp ".kafka/libs/*" tests/golden/kafka-4.3.1/share_group_state/Records.java [combined]
 */
public class Records {
    static final Uuid TOPIC = new Uuid(0x0001020304050607L, 0x08090a0b0c0d0e0fL);

    public static void main(String[] args) {
        if (args.length == 0) {
            records();
        } else {
            combined();
        }
    }

    static void records() {
        print("first-snapshot", ShareCoordinatorRecordHelpers.newShareSnapshotRecord("group", TOPIC, 0, new ShareGroupOffset.Builder()
            .setSnapshotEpoch(0).setStateEpoch(1).setLeaderEpoch(0).setStartOffset(-1).setDeliveryCompleteCount(-1)
            .setCreateTimestamp(1700000000000L).setWriteTimestamp(1700000000000L).setStateBatches(List.of()).build()));
        List<PersisterStateBatch> batches = List.of(
            new PersisterStateBatch(10, 14, (byte) 0, (short) 1),
            new PersisterStateBatch(15, 15, (byte) 2, (short) 2),
            new PersisterStateBatch(17, 400, (byte) 4, (short) 5));
        ShareGroupOffset full = new ShareGroupOffset.Builder()
            .setSnapshotEpoch(7).setStateEpoch(3).setLeaderEpoch(12).setStartOffset(10).setDeliveryCompleteCount(385)
            .setCreateTimestamp(1700000000000L).setWriteTimestamp(1700000000005L).setStateBatches(batches).build();
        print("snapshot", ShareCoordinatorRecordHelpers.newShareSnapshotRecord("ü世", TOPIC, 2147483647, full));
        print("update", ShareCoordinatorRecordHelpers.newShareUpdateRecord("ü世", TOPIC, 3, full));
        print("small-update", ShareCoordinatorRecordHelpers.newShareUpdateRecord("a:b", TOPIC, 3, new ShareGroupOffset.Builder()
            .setSnapshotEpoch(7).setLeaderEpoch(12).setStartOffset(-1).setDeliveryCompleteCount(-1)
            .setStateBatches(List.of()).build()));
        print("removal", ShareCoordinatorRecordHelpers.newShareStateTombstoneRecord("group", TOPIC, 0));
    }

    static void print(String name, CoordinatorRecord record) {
        ShareCoordinatorRecordSerde serde = new ShareCoordinatorRecordSerde();
        byte[] value = serde.serializeValue(record);
        HexFormat hex = HexFormat.of();
        System.out.println(name + " " + hex.formatHex(serde.serializeKey(record)) + " " + (value == null ? "-" : hex.formatHex(value)));
    }

    static void combined() {
        Random random = new Random(932);
        for (int i = 0; i < 400; i++) {
            long start = random.nextInt(4) == 0 ? -1 : random.nextInt(20);
            List<PersisterStateBatch> known = new PersisterStateBatchCombiner(List.of(), batches(random), start).combineStateBatches();
            List<PersisterStateBatch> added = batches(random);
            long moved = random.nextBoolean() ? start : Math.max(start, random.nextInt(25));
            List<PersisterStateBatch> result = new PersisterStateBatchCombiner(known, added, moved).combineStateBatches();
            System.out.println(moved + " " + text(known) + " " + text(added) + " " + text(result));
        }
    }

    static List<PersisterStateBatch> batches(Random random) {
        List<PersisterStateBatch> found = new ArrayList<>();
        for (int i = random.nextInt(6); i > 0; i--) {
            int first = random.nextInt(30);
            byte state = new byte[] {0, 2, 4}[random.nextInt(3)];
            found.add(new PersisterStateBatch(first, first + random.nextInt(8), state, (short) (1 + random.nextInt(3))));
        }
        return found;
    }

    static String text(List<PersisterStateBatch> batches) {
        return batches.isEmpty() ? "-" : batches.stream()
            .map(b -> b.firstOffset() + ":" + b.lastOffset() + ":" + b.deliveryState() + ":" + b.deliveryCount())
            .collect(Collectors.joining(","));
    }
}
