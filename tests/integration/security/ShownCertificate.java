import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.AuthenticationException;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.time.Duration;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ExecutionException;

/**
 * A producer and a consumer that show a certificate: SERVERS TOPIC VERSION-OF-TLS AUTHORITY. Each line of standard input is a
 * keystore (PEM) with which a new pair begins. A line of output is "sent NUMBER", "read NUMBER", or, when one of the two gives
 * up, "producer CLASS: MESSAGE" or "consumer CLASS: MESSAGE".
 */
public class ShownCertificate {
    static int number;

    public static void main(String[] args) throws Exception {
        BufferedReader keystores = new BufferedReader(new InputStreamReader(System.in));
        for (String keystore = keystores.readLine(); keystore != null; keystore = keystores.readLine()) {
            Map<String, Object> settings = new HashMap<>(Map.of(
                "bootstrap.servers", args[0], "security.protocol", "SSL", "ssl.enabled.protocols", args[2],
                "ssl.protocol", args[2], "ssl.truststore.type", "PEM", "ssl.truststore.location", args[3],
                "ssl.keystore.type", "PEM", "ssl.keystore.location", keystore));
            settings.put("request.timeout.ms", 5000);
            Thread writer = new Thread(() -> write(new HashMap<>(settings), args[1]));
            Thread reader = new Thread(() -> read(new HashMap<>(settings), args[1]));
            writer.setDaemon(true);
            reader.setDaemon(true);
            writer.start();
            reader.start();
        }
    }

    static void tell(String line) {
        synchronized (System.out) {
            System.out.println(line.replace('\n', ' '));
        }
    }

    static void write(Map<String, Object> settings, String topic) {
        settings.putAll(Map.of("acks", "all", "delivery.timeout.ms", 10000, "linger.ms", 0, "max.block.ms", 10000));
        KafkaProducer<String, String> producer = new KafkaProducer<>(settings, new StringSerializer(), new StringSerializer());
        try {
            while (true) {
                String value = Integer.toString(++number);
                producer.send(new ProducerRecord<>(topic, 0, null, value)).get();
                tell("sent " + value);
                Thread.sleep(100);
            }
        } catch (ExecutionException error) {
            tell("producer " + error.getCause());
        } catch (Exception error) {
            tell("producer " + error);
        }
    }

    static void read(Map<String, Object> settings, String topic) {
        settings.put("auto.offset.reset", "earliest");
        KafkaConsumer<String, String> consumer = new KafkaConsumer<>(settings, new StringDeserializer(), new StringDeserializer());
        TopicPartition partition = new TopicPartition(topic, 0);
        consumer.assign(List.of(partition));
        consumer.seek(partition, 0);
        long silent = System.nanoTime();
        try {
            while (System.nanoTime() - silent < 15_000_000_000L) {
                for (var record : consumer.poll(Duration.ofMillis(200))) {
                    tell("read " + record.value());
                    silent = System.nanoTime();
                }
            }
            tell("consumer reads nothing for fifteen seconds");
        } catch (AuthenticationException error) {
            tell("consumer " + error);
        }
    }
}
