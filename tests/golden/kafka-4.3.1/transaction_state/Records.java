// Prints records of __transaction_state as Apache Kafka 4.3.1's own classes write them: name, key, value, in hexadecimal.
//
//     java -cp '.kafka/libs/*' tests/golden/kafka-4.3.1/transaction_state/Records.java > records.txt

import java.util.HashSet;
import java.util.HexFormat;
import java.util.Set;
import org.apache.kafka.common.TopicPartition;
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

    public static void main(String[] arguments) {
        Set<TopicPartition> none = Set.of(), one = Set.of(new TopicPartition("t", 3));
        TransactionVersion old = TransactionVersion.TV_0, raising = TransactionVersion.TV_2;
        print("empty", "a", 1000, 1000, -1, 0, TransactionState.EMPTY, none, -1, 1700000000000L, old);
        print("ongoing", "my-id", 1000, 1000, -1, 5, TransactionState.ONGOING, one, 1700000000001L, 1700000000002L, raising);
        print("prepare-commit", "my-id", 1000, 1000, 1001, 32767, TransactionState.PREPARE_COMMIT, one, 1L, 2L, raising);
        print("prepare-abort", "\u00fc\u4e16", 7, 6, -1, 1, TransactionState.PREPARE_ABORT, none, 1L, 2L, old);
        print("complete-commit", "my-id", 1001, 1000, -1, 0, TransactionState.COMPLETE_COMMIT, none, 1L, 3L, raising);
        print("complete-abort", "my-id", 1001, 1001, -1, 0, TransactionState.COMPLETE_ABORT, none, 1L, 3L, old);
    }
}
