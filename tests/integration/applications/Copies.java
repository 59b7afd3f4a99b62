// A Kafka Streams application that copies `source` to `target`, exactly once: `java Copies PROPERTIES`. It has a task for each
// partition and no state, so that a commit is one TxnOffsetCommit for all partitions that a thread has read from.

import java.io.FileInputStream;
import java.util.Properties;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.errors.StreamsUncaughtExceptionHandler.StreamThreadExceptionResponse;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.Produced;

public class Copies {
    public static void main(String[] arguments) throws Exception {
        Properties settings = new Properties();
        try (FileInputStream file = new FileInputStream(arguments[0])) {
            settings.load(file);
        }
        var bytes = Serdes.ByteArray();
        StreamsBuilder builder = new StreamsBuilder();
        builder.stream("source", Consumed.with(bytes, bytes)).to("target", Produced.with(bytes, bytes));
        KafkaStreams streams = new KafkaStreams(builder.build(), settings);
        streams.setStateListener((now, before) -> System.out.println("state " + now));
        streams.setUncaughtExceptionHandler(error -> {
            error.printStackTrace(System.out);
            return StreamThreadExceptionResponse.REPLACE_THREAD;
        });
        streams.start();
        Thread.sleep(Long.MAX_VALUE);
    }
}
