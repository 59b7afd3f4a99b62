import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;

/**
 * Reads a topic from its beginning: SERVERS. For each line "TOPIC PARTITIONS OFFSET BYTES" it prints the seconds until each
 * partition was read up to the offset by a consumer with fetch.min.bytes=BYTES, and nothing else set.
 */
public class MinBytes {
    public static void main(String[] args) throws Exception {
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
        for (String line; (line = lines.readLine()) != null; ) {
            String[] words = line.split(" ");
            System.out.println(read(args[0], words[0], Integer.parseInt(words[1]), Long.parseLong(words[2]), words[3]));
        }
    }

    private static double read(String servers, String topic, int partitions, long offset, String bytes) {
        Map<String, Object> settings = Map.of("bootstrap.servers", servers, "fetch.min.bytes", bytes);
        var bytesOf = new ByteArrayDeserializer();
        try (KafkaConsumer<byte[], byte[]> consumer = new KafkaConsumer<>(settings, bytesOf, bytesOf)) {
            List<TopicPartition> all = new ArrayList<>();
            for (int n = 0; n < partitions; n++) all.add(new TopicPartition(topic, n));
            consumer.assign(all);
            consumer.beginningOffsets(all);
            Map<Integer, Long> left = new HashMap<>();
            for (TopicPartition one : all) left.put(one.partition(), offset);
            long begun = System.nanoTime();
            consumer.seekToBeginning(all);
            while (!left.isEmpty()) {
                for (ConsumerRecord<byte[], byte[]> one : consumer.poll(Duration.ofSeconds(10))) {
                    if (one.offset() + 1 >= offset) left.remove(one.partition());
                }
            }
            return (System.nanoTime() - begun) / 1e9;
        }
    }
}
