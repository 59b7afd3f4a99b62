// A Flink job that copies `source` to `target`, exactly once: `java FlinkCopies SERVERS PARTITIONS NAMING CHECKPOINTS [FROM]`. It runs
// in a cluster within this process, writes a checkpoint each half second, and begins at the checkpoint FROM if one is named.
// A line on standard input is where a task is to fail next: at a `record`, while it is part of a checkpoint (`snapshot`), or
// once a checkpoint is `complete`, before the sink has heard of it. The program ends with its standard input.

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.concurrent.atomic.AtomicReference;
import org.apache.flink.api.common.eventtime.WatermarkStrategy;
import org.apache.flink.api.common.functions.RichMapFunction;
import org.apache.flink.api.common.serialization.SimpleStringSchema;
import org.apache.flink.api.common.state.CheckpointListener;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.connector.base.DeliveryGuarantee;
import org.apache.flink.connector.kafka.sink.KafkaPartitioner;
import org.apache.flink.connector.kafka.sink.KafkaRecordSerializationSchema;
import org.apache.flink.connector.kafka.sink.KafkaSink;
import org.apache.flink.connector.kafka.sink.TransactionNamingStrategy;
import org.apache.flink.connector.kafka.source.KafkaSource;
import org.apache.flink.connector.kafka.source.enumerator.initializer.OffsetsInitializer;
import org.apache.flink.runtime.state.FunctionInitializationContext;
import org.apache.flink.runtime.state.FunctionSnapshotContext;
import org.apache.flink.streaming.api.checkpoint.CheckpointedFunction;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;

public class FlinkCopies {
    private static final AtomicReference<String> WANTED = new AtomicReference<>("");

    /** A task of the job, which fails where it is told to. */
    public static class Passes extends RichMapFunction<String, String> implements CheckpointedFunction, CheckpointListener {
        private static void reached(String place) {
            if (WANTED.compareAndSet(place, "")) {
                System.out.println("failing: " + place);
                throw new IllegalStateException("told to fail: " + place);
            }
        }

        @Override
        public String map(String value) {
            reached("record");
            return value;
        }

        @Override
        public void snapshotState(FunctionSnapshotContext context) {
            reached("snapshot");
        }

        @Override
        public void initializeState(FunctionInitializationContext context) {}

        @Override
        public void notifyCheckpointComplete(long checkpoint) {
            reached("complete");
        }
    }

    public static void main(String[] arguments) throws Exception {
        String servers = arguments[0], naming = arguments[2], checkpoints = arguments[3];
        int partitions = Integer.parseInt(arguments[1]);
        Configuration settings = new Configuration();
        settings.setString("rest.bind-port", "0");
        settings.setString("taskmanager.memory.network.max", "64 mb");
        settings.setString("restart-strategy.type", "fixed-delay");
        settings.setString("restart-strategy.fixed-delay.attempts", "2147483647");
        settings.setString("restart-strategy.fixed-delay.delay", "200 ms");
        settings.setString("execution.checkpointing.interval", "500 ms");
        settings.setString("execution.checkpointing.dir", checkpoints);
        settings.setString("execution.checkpointing.num-retained", "3");
        settings.setString("execution.checkpointing.externalized-checkpoint-retention", "RETAIN_ON_CANCELLATION");
        if (arguments.length > 4) settings.setString("execution.state-recovery.path", arguments[4]);
        StreamExecutionEnvironment job = StreamExecutionEnvironment.createLocalEnvironment(2, settings);
        KafkaSource<String> source = KafkaSource.<String>builder()
                .setBootstrapServers(servers).setTopics("source").setGroupId("flink")
                .setStartingOffsets(OffsetsInitializer.earliest())
                .setValueOnlyDeserializer(new SimpleStringSchema())
                .setProperty("commit.offsets.on.checkpoint", "true")
                .build();
        KafkaPartitioner<String> as = (value, key, bytes, topic, all) -> (int) (Long.parseLong(value) % partitions);
        KafkaRecordSerializationSchema<String> copies = KafkaRecordSerializationSchema.<String>builder()
                .setTopic("target").setPartitioner(as).setValueSerializationSchema(new SimpleStringSchema()).build();
        KafkaSink<String> sink = KafkaSink.<String>builder()
                .setBootstrapServers(servers).setRecordSerializer(copies)
                .setDeliveryGuarantee(DeliveryGuarantee.EXACTLY_ONCE).setTransactionalIdPrefix("flink")
                .setTransactionNamingStrategy(TransactionNamingStrategy.valueOf(naming))
                .setProperty("transaction.timeout.ms", "300000")
                .build();
        job.fromSource(source, WatermarkStrategy.noWatermarks(), "source").uid("source")
                .map(new Passes()).uid("passes")
                .sinkTo(sink).uid("sink");
        Thread orders = new Thread(FlinkCopies::listen);
        orders.setDaemon(true);
        orders.start();
        job.execute("copies");
    }

    private static void listen() {
        try (BufferedReader lines = new BufferedReader(new InputStreamReader(System.in))) {
            for (String line; (line = lines.readLine()) != null; ) WANTED.set(line.strip().intern());
        } catch (Exception error) {
            error.printStackTrace(System.out);
        }
        Runtime.getRuntime().halt(0);
    }
}
