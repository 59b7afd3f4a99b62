// Reads a topic of so many partitions to its end and prints a line a record: partition, offset, time, key, value, and each
// header's name and value, in hex; "-" is null. `java -cp 'libs/*' ConsumedRows.java SERVERS TOPIC ISOLATION`.

import java.time.Duration;
import java.util.HexFormat;
import java.util.Map;
import java.util.Properties;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

public class ConsumedRows {
    static String hex(byte[] bytes) {
        return bytes == null ? "-" : "x" + HexFormat.of().formatHex(bytes);
    }

    public static void main(String[] arguments) {
        Properties settings = new Properties();
        settings.putAll(Map.of("bootstrap.servers", arguments[0], "isolation.level", arguments[2]));
        var bytes = new ByteArrayDeserializer();
        try (var consumer = new KafkaConsumer<>(settings, bytes, bytes)) {
            var parts = consumer.partitionsFor(arguments[1]).stream()
                .map(part -> new TopicPartition(part.topic(), part.partition())).toList();
            consumer.assign(parts);
            consumer.seekToBeginning(parts);
            var ends = consumer.endOffsets(parts);
            while (parts.stream().anyMatch(part -> consumer.position(part) < ends.get(part))) {
                for (ConsumerRecord<byte[], byte[]> record : consumer.poll(Duration.ofSeconds(1))) {
                    StringBuilder line = new StringBuilder();
                    line.append(record.partition()).append(' ').append(record.offset()).append(' ')
                        .append(record.timestamp()).append(' ').append(hex(record.key())).append(' ')
                        .append(hex(record.value()));
                    for (Header header : record.headers()) {
                        line.append(' ').append(hex(header.key().getBytes(java.nio.charset.StandardCharsets.UTF_8)))
                            .append(' ').append(hex(header.value()));
                    }
                    System.out.println(line);
                }
            }
        }
    }
}
