// Opens a partition's directory as Apache Kafka does after a crash, which builds all indexes again, and tells what readers of
// committed records would get: `java -cp 'libs/*' CommittedReads.java DIRECTORY`.

import java.io.File;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.server.storage.log.FetchIsolation;
import org.apache.kafka.server.util.KafkaScheduler;
import org.apache.kafka.storage.internals.log.LogConfig;
import org.apache.kafka.storage.internals.log.LogDirFailureChannel;
import org.apache.kafka.storage.internals.log.ProducerStateManagerConfig;
import org.apache.kafka.storage.internals.log.UnifiedLog;
import org.apache.kafka.storage.log.metrics.BrokerTopicStats;

public class CommittedReads {
    public static void main(String[] arguments) throws Exception {
        KafkaScheduler scheduler = new KafkaScheduler(1);
        scheduler.startup();
        UnifiedLog log = UnifiedLog.create(
            new File(arguments[0]), new LogConfig(Map.of()), 0, 0, scheduler, new BrokerTopicStats(), Time.SYSTEM, 60_000,
            new ProducerStateManagerConfig(86_400_000, false), 600_000, new LogDirFailureChannel(1), false,
            Optional.empty());
        log.updateHighWatermark(log.logEndOffset());
        System.out.println("stable " + log.lastStableOffset());
        for (long from = 0; from < log.lastStableOffset(); from++) {
            var read = log.read(from, 200, FetchIsolation.TXN_COMMITTED, true);
            long next = from;
            for (var batch : read.records.batches()) {
                next = batch.nextOffset();
            }
            StringBuilder line = new StringBuilder("read " + from + " " + next);
            for (var aborted : read.abortedTransactions.orElse(List.of())) {
                line.append(" ").append(aborted.producerId()).append("@").append(aborted.firstOffset());
            }
            System.out.println(line);
        }
        log.close();
        scheduler.shutdown();
    }
}
