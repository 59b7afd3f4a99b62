// A Kafka Streams application with two halves, exactly once: `java WordsAndPairs PROPERTIES`.
//
// words:        every word of `lines` -> `counts`: the word, and how often it has come so far. Nothing is cached, so each word
//               that is read gives one record.
// left, right:  -> `pairs`: for a key, each value of the left beside each of the right that is at most a second apart. Late
//               records count, so the order in which both sides are read does not matter.

import java.io.FileInputStream;
import java.time.Duration;
import java.util.List;
import java.util.Properties;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.Grouped;
import org.apache.kafka.streams.kstream.JoinWindows;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.Produced;
import org.apache.kafka.streams.kstream.StreamJoined;

public class WordsAndPairs {
    public static void main(String[] arguments) throws Exception {
        Properties settings = new Properties();
        try (FileInputStream file = new FileInputStream(arguments[0])) {
            settings.load(file);
        }
        var text = Serdes.String();
        StreamsBuilder builder = new StreamsBuilder();
        builder.stream("lines", Consumed.with(text, text))
            .flatMapValues(line -> List.of(line.split(" ")))
            .groupBy((key, word) -> word, Grouped.with(text, text))
            .count(Materialized.as("counted"))
            .toStream()
            .mapValues(count -> Long.toString(count))
            .to("counts", Produced.with(text, text));
        builder.stream("left", Consumed.with(text, text))
            .join(
                builder.stream("right", Consumed.with(text, text)),
                (left, right) -> left + "+" + right,
                JoinWindows.ofTimeDifferenceAndGrace(Duration.ofSeconds(1), Duration.ofHours(6)),
                StreamJoined.with(text, text, text))
            .to("pairs", Produced.with(text, text));
        KafkaStreams streams = new KafkaStreams(builder.build(), settings);
        streams.setStateListener((now, before) -> System.out.println("state " + now));
        streams.setUncaughtExceptionHandler(error -> {
            error.printStackTrace(System.out);
            return org.apache.kafka.streams.errors.StreamsUncaughtExceptionHandler.StreamThreadExceptionResponse.REPLACE_THREAD;
        });
        streams.start();
        Thread.sleep(Long.MAX_VALUE);
    }
}
