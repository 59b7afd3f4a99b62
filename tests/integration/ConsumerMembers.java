import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

import java.time.Duration;
import java.util.Collection;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ConcurrentLinkedQueue;

/**
 * Members of one consumer group (KIP-848) that tell what they do: SERVERS TOPIC GROUP COUNT NAME. A number on standard input
 * lets so many of them leave. A line is "WORD NANOSECONDS MEMBER PARTITION OFFSET"; the words are in hundred_members.py.
 */
public class ConsumerMembers {
    static final ConcurrentLinkedQueue<Member> members = new ConcurrentLinkedQueue<>();

    public static void main(String[] args) throws Exception {
        for (int n = 0; n < Integer.parseInt(args[3]); n++) {
            Member one = new Member(args[0], args[1], args[2], args[4] + "-" + n);
            members.add(one);
            one.start();
        }
        java.io.BufferedReader commands = new java.io.BufferedReader(new java.io.InputStreamReader(System.in));
        for (String line = commands.readLine(); line != null; line = commands.readLine())
            for (int n = 0; n < Integer.parseInt(line.trim()); n++) members.remove().stopped = true;
        for (Member one : members) one.stopped = true;
    }

    static class Member extends Thread implements ConsumerRebalanceListener {
        final String servers, topic, group, name;
        final Set<Integer> owned = new HashSet<>();
        final Map<TopicPartition, OffsetAndMetadata> read = new HashMap<>();
        volatile boolean stopped;
        KafkaConsumer<byte[], byte[]> consumer;

        Member(String servers, String topic, String group, String name) {
            this.servers = servers;
            this.topic = topic;
            this.group = group;
            this.name = name;
        }

        void tell(String word, int partition, long offset) {
            String line = word + " " + System.nanoTime() + " " + name + " " + partition + " " + offset;
            synchronized (System.out) {
                System.out.println(line);
            }
        }

        public void run() {
            consumer = new KafkaConsumer<>(Map.of("bootstrap.servers", servers, "group.id", group, "group.protocol", "consumer",
                "auto.offset.reset", "earliest", "enable.auto.commit", false, "client.id", name),
                new ByteArrayDeserializer(), new ByteArrayDeserializer());
            consumer.subscribe(List.of(topic), this);
            long committed = System.nanoTime();
            while (!stopped) {
                for (ConsumerRecord<byte[], byte[]> one : consumer.poll(Duration.ofMillis(200))) {
                    tell("read", one.partition(), one.offset());
                    read.put(new TopicPartition(topic, one.partition()), new OffsetAndMetadata(one.offset() + 1));
                }
                if (System.nanoTime() - committed > 1_000_000_000L) {
                    committed = System.nanoTime();
                    commit(read.keySet());
                }
            }
            consumer.close();
            tell("left", -1, -1);
        }

        void commit(Collection<TopicPartition> partitions) {
            Map<TopicPartition, OffsetAndMetadata> now = new HashMap<>(read);
            now.keySet().retainAll(partitions);
            if (now.isEmpty()) return;
            try {
                consumer.commitSync(now, Duration.ofSeconds(20));
                read.keySet().removeAll(now.keySet());
            } catch (RuntimeException error) {
                tell("failed", -1, -1);
            }
        }

        public void onPartitionsAssigned(Collection<TopicPartition> partitions) {
            for (TopicPartition one : partitions) tell("own", one.partition(), -1);
        }

        public void onPartitionsRevoked(Collection<TopicPartition> partitions) {
            commit(List.copyOf(partitions));
            read.keySet().removeAll(partitions);
            for (TopicPartition one : partitions) tell("let", one.partition(), -1);
        }

        public void onPartitionsLost(Collection<TopicPartition> partitions) {
            read.keySet().removeAll(partitions);
            for (TopicPartition one : partitions) tell("lost", one.partition(), -1);
        }
    }
}
