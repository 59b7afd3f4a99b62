// Prints records of __transaction_state as Apache Kafka 4.3.1's own classes write them: name, key, value, in hexadecimal.
// Its coordinator never writes NextProducerEpoch (KIP-939), so those records come from the class of the message itself, and
// its coordinator's reader must take them.
//
//     java -cp '.kafka/libs/*' tests/golden/kafka-4.3.1/transaction_state/Records.java > records.txt

import java.nio.ByteBuffer;
import java.util.HashSet;
import java.util.HexFormat;
import java.util.List;
import java.util.Set;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.protocol.MessageUtil;
import org.apache.kafka.coordinator.transaction.generated.TransactionLogValue;
import org.apache.kafka.coordinator.transaction.TransactionLog;
import org.apache.kafka.coordinator.transaction.TransactionState;
import org.apache.kafka.coordinator.transaction.TxnTransitMetadata;
import org.apache.kafka.server.common.TransactionVersion;

public class Records {
    static void print(String name, String id, long producer, long previous, long next, int epoch, TransactionState state,
                      Set<TopicPartition> partitions, long started, long updated, TransactionVersion client) {
        HexFormat hex = HexFormat.of();
        TxnTransitMetadata metadata = new TxnTransitMetadata(producer, previous, next, (short) epoch, (short) -1, 60000, state,
            new HashSet<>(partitions), started, updated, client);
        for (TransactionVersion version : TransactionVersion.values())
            if (version != TransactionVersion.TV_0 || client == TransactionVersion.TV_0)  // version 0 has no place for it
                System.out.println(name + " " + version.featureLevel() + " " + hex.formatHex(TransactionLog.keyToBytes(id)) + " "
                    + hex.formatHex(TransactionLog.valueToBytes(metadata, version)));
    }

    static void printKept(String name, String id, long producer, long previous, long next, int epoch, int nextEpoch,
                          TransactionState state) {
        TransactionLogValue value = new TransactionLogValue().setProducerId(producer).setPreviousProducerId(previous)
            .setNextProducerId(next).setProducerEpoch((short) epoch).setNextProducerEpoch((short) nextEpoch)
            .setTransactionTimeoutMs(Integer.MAX_VALUE).setTransactionStatus(state.id())
            .setTransactionPartitions(List.of(new TransactionLogValue.PartitionsSchema().setTopic("t").setPartitionIds(List.of(3))))
            .setTransactionStartTimestampMs(1L).setTransactionLastUpdateTimestampMs(2L)
            .setClientTransactionVersion(TransactionVersion.TV_2.featureLevel());
        byte[] key = TransactionLog.keyToBytes(id), bytes = MessageUtil.toVersionPrefixedBytes((short) 1, value);
        if (TransactionLog.read(ByteBuffer.wrap(key), ByteBuffer.wrap(bytes)) == null)
            throw new AssertionError(name);
        HexFormat hex = HexFormat.of();
        for (int level = 1; level < 3; level++)
            System.out.println(name + " " + level + " " + hex.formatHex(key) + " " + hex.formatHex(bytes));
    }

    public static void main(String[] arguments) {
        Set<TopicPartition> none = Set.of(), one = Set.of(new TopicPartition("t", 3));
        TransactionVersion old = TransactionVersion.TV_0, raising = TransactionVersion.TV_2;
        print("empty", "a", 1000, 1000, -1, 0, TransactionState.EMPTY, none, -1, 1700000000000L, old);
        print("ongoing", "my-id", 1000, 1000, -1, 5, TransactionState.ONGOING, one, 1700000000001L, 1700000000002L, raising);
        print("prepare-commit", "my-id", 1000, 1000, 1001, 32767, TransactionState.PREPARE_COMMIT, one, 1L, 2L, raising);
        print("prepare-abort", "\u00fc\u4e16", 7, 6, -1, 1, TransactionState.PREPARE_ABORT, none, 1L, 2L, old);
        print("complete-commit", "my-id", 1001, 1000, -1, 0, TransactionState.COMPLETE_COMMIT, none, 1L, 3L, raising);
        printKept("kept", "my-id", 1000, 1000, 1000, 5, 6, TransactionState.ONGOING);
        printKept("kept-beyond", "my-id", 1000, 1000, 1002, 32766, 0, TransactionState.ONGOING);
        printKept("kept-prepare-commit", "my-id", 1000, 1002, 1002, 32767, 7, TransactionState.PREPARE_COMMIT);
        print("complete-abort", "my-id", 1001, 1001, -1, 0, TransactionState.COMPLETE_ABORT, none, 1L, 3L, old);
    }
}
