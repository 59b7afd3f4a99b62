import java.io.BufferedReader;
import java.io.File;
import java.io.InputStreamReader;
import java.lang.management.ManagementFactory;
import java.lang.management.ThreadMXBean;
import java.util.Map;
import java.util.Optional;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.server.util.KafkaScheduler;
import org.apache.kafka.storage.internals.log.Cleaner;
import org.apache.kafka.storage.internals.log.CleanerStats;
import org.apache.kafka.storage.internals.log.LogConfig;
import org.apache.kafka.storage.internals.log.LogDirFailureChannel;
import org.apache.kafka.storage.internals.log.LogToClean;
import org.apache.kafka.storage.internals.log.ProducerStateManagerConfig;
import org.apache.kafka.storage.internals.log.SkimpyOffsetMap;
import org.apache.kafka.storage.internals.log.UnifiedLog;
import org.apache.kafka.storage.internals.utils.Throttler;
import org.apache.kafka.storage.log.metrics.BrokerTopicStats;

/**
 * Apache Kafka's own log cleaner on directories of logs, without a broker. Argument: bytes of the offset map.
 *
 * Each line of the input is a directory such as /tmp/x/topic-0. It is cleaned by this thread, and a line is written: nanoseconds
 * of the thread's processor, nanoseconds of the clock, records read, records kept. The Java process stays, so that what was
 * compiled for one log serves the next.
 */
public class CleanKafka {
    private static final int IO_BUFFER_BYTES = 512 * 1024;      // log.cleaner.io.buffer.size, as Apache Kafka has it
    private static final int MESSAGE_BYTES_MAX = 1024 * 1024 + 12;
    private static final double LOAD_FACTOR = 0.9;

    public static void main(String[] arguments) throws Exception {
        int mapBytes = Integer.parseInt(arguments[0]);
        KafkaScheduler scheduler = new KafkaScheduler(1);
        scheduler.startup();
        Throttler unlimited = new Throttler(Double.MAX_VALUE, 300, "cleaner", "bytes", Time.SYSTEM);
        Cleaner cleaner = new Cleaner(
            0, new SkimpyOffsetMap(mapBytes), IO_BUFFER_BYTES, MESSAGE_BYTES_MAX, LOAD_FACTOR, unlimited, Time.SYSTEM, partition -> { });
        LogConfig config = new LogConfig(Map.of("cleanup.policy", "compact", "segment.bytes", Integer.toString(64 << 20)));
        ThreadMXBean threads = ManagementFactory.getThreadMXBean();
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            UnifiedLog log = UnifiedLog.create(
                new File(line), config, 0, 0, scheduler, new BrokerTopicStats(), Time.SYSTEM, 3_600_000,
                new ProducerStateManagerConfig(86_400_000, false), 600_000, new LogDirFailureChannel(1), true, Optional.empty());
            log.updateHighWatermark(log.logEndOffset());
            LogToClean wanted = new LogToClean(log, 0, log.activeSegment().baseOffset(), false);
            System.gc();
            long processor = threads.getCurrentThreadCpuTime();
            long clock = System.nanoTime();
            CleanerStats stats = cleaner.clean(wanted).getValue();
            clock = System.nanoTime() - clock;
            processor = threads.getCurrentThreadCpuTime() - processor;
            System.out.println(processor + " " + clock + " " + stats.messagesRead() + " " + stats.messagesWritten());
            log.close();
        }
        scheduler.shutdown();
    }
}
