import org.apache.kafka.clients.consumer.AcknowledgeType;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaShareConsumer;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicIdPartition;
import org.apache.kafka.common.serialization.StringDeserializer;

import java.time.Duration;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;

/**
 * A member of a share group that tells what it is given and what is done: SERVERS TOPIC GROUP. It gives back the first
 * delivery of each value that ends with 7, and accepts the others. A line is
 * "got MS PARTITION OFFSET COUNT VALUE", MS being when it asked, or "done MS PARTITION OFFSET COUNT", when it was answered that
 * the acceptance holds.
 */
public class ShareMember {
    public static void main(String[] args) {
        Map<String, Object> settings = Map.of("bootstrap.servers", args[0], "group.id", args[2], "share.acknowledgement.mode", "explicit");
        try (KafkaShareConsumer<String, String> consumer = new KafkaShareConsumer<>(settings, new StringDeserializer(), new StringDeserializer())) {
            consumer.subscribe(List.of(args[1]));
            while (true) {
                long asked = System.currentTimeMillis();
                ConsumerRecords<String, String> records = consumer.poll(Duration.ofMillis(300));
                Set<String> accepted = new HashSet<>();
                for (ConsumerRecord<String, String> one : records) {
                    int count = one.deliveryCount().orElse((short) 0);
                    System.out.println("got " + asked + " " + one.partition() + " " + one.offset() + " " + count + " " + one.value());
                    boolean again = one.value().endsWith("7") && count == 1;
                    consumer.acknowledge(one, again ? AcknowledgeType.RELEASE : AcknowledgeType.ACCEPT);
                    if (!again) accepted.add(one.partition() + " " + one.offset() + " " + count);
                }
                if (records.isEmpty()) continue;
                Map<TopicIdPartition, Optional<KafkaException>> told = consumer.commitSync(Duration.ofSeconds(40));
                long answered = System.currentTimeMillis();
                told.forEach((partition, error) -> {
                    for (String one : accepted)
                        if (error.isEmpty() && one.startsWith(partition.partition() + " ")) System.out.println("done " + answered + " " + one);
                });
            }
        }
    }
}
