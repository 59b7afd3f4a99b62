import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaShareConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.lang.management.ManagementFactory;
import java.nio.ByteBuffer;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.locks.LockSupport;

/**
 * Members of a share group beside one cluster, and a producer that keeps them busy: SERVERS TOPIC CONSUMERS BYTES RATE.
 * RATE: records a second; 0: as many as the members take. For each line with a number of seconds it prints how many records
 * they were given, in how many seconds, the processor seconds, and percentiles of the time from send to poll in ms.
 * In between nobody sends or polls.
 */
public class ShareConsumers {
    private static final String GROUP = "share";
    private static final int AHEAD_MAX = 100_000;
    private static final AtomicLong sent = new AtomicLong(), got = new AtomicLong();
    private static volatile boolean works = true;

    public static void main(String[] args) throws Exception {
        String servers = args[0], topic = args[1];
        int consumers = Integer.parseInt(args[2]), bytes = Integer.parseInt(args[3]), rate = Integer.parseInt(args[4]);
        try (Admin admin = Admin.create(Map.of("bootstrap.servers", servers))) {
            ConfigResource group = new ConfigResource(ConfigResource.Type.GROUP, GROUP);
            AlterConfigOp earliest = new AlterConfigOp(new ConfigEntry("share.auto.offset.reset", "earliest"), AlterConfigOp.OpType.SET);
            admin.incrementalAlterConfigs(Map.of(group, List.of(earliest))).all().get();
        }
        List<Member> members = new ArrayList<>();
        for (int n = 0; n < consumers; n++) {
            members.add(new Member(servers, topic));
            members.get(n).start();
        }
        Thread producer = new Thread(() -> produce(servers, topic, bytes, rate));
        producer.setDaemon(true);
        producer.start();
        while (got.get() == 0) Thread.sleep(10);
        works = false;
        System.out.println("ready");
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
        for (String line; (line = lines.readLine()) != null; ) {
            double cpu = cpu();
            long begun = System.nanoTime(), before = got.get();
            members.forEach(Member::forget);
            works = true;
            Thread.sleep((long) (Double.parseDouble(line) * 1000));
            works = false;
            long count = got.get() - before;
            double took = (System.nanoTime() - begun) / 1e9;
            long[] times = members.stream().flatMapToLong(one -> one.taken()).sorted().toArray();
            System.out.printf("%d %f %f %f %f %f%n", count, took, cpu() - cpu, at(times, 50), at(times, 90), at(times, 99));
        }
        System.exit(0);
    }

    private static double at(long[] times, int percent) {
        return times.length == 0 ? -1 : times[(int) ((long) (times.length - 1) * percent / 100)] / 1e6;
    }

    private static double cpu() {
        return ((com.sun.management.OperatingSystemMXBean) ManagementFactory.getOperatingSystemMXBean()).getProcessCpuTime() / 1e9;
    }

    private static void produce(String servers, String topic, int bytes, int rate) {
        Map<String, Object> settings = Map.of("bootstrap.servers", servers, "linger.ms", rate > 0 ? 0 : 5, "batch.size", rate > 0 ? 1 : 16384);
        KafkaProducer<byte[], byte[]> producer = new KafkaProducer<>(settings, new ByteArraySerializer(), new ByteArraySerializer());
        long due = System.nanoTime();
        while (true) {
            if (!works) {
                LockSupport.parkNanos(1_000_000);
                due = System.nanoTime();
                continue;
            }
            if (rate > 0) {
                due += 1_000_000_000L / rate;
                while (System.nanoTime() < due) LockSupport.parkNanos(due - System.nanoTime());
            } else if (sent.get() - got.get() > AHEAD_MAX) {
                LockSupport.parkNanos(1_000_000);
                continue;
            }
            byte[] value = new byte[bytes];
            ByteBuffer.wrap(value).putLong(System.nanoTime());
            producer.send(new ProducerRecord<>(topic, value));
            sent.incrementAndGet();
        }
    }

    /** One member: what it was given with the poll before it accepts with the next. */
    private static class Member extends Thread {
        private final KafkaShareConsumer<byte[], byte[]> consumer;
        private long[] times = new long[1 << 16];
        private int count;

        Member(String servers, String topic) {
            setDaemon(true);
            Map<String, Object> settings = Map.of("bootstrap.servers", servers, "group.id", GROUP);
            consumer = new KafkaShareConsumer<>(settings, new ByteArrayDeserializer(), new ByteArrayDeserializer());
            consumer.subscribe(List.of(topic));
        }

        @Override
        public void run() {
            while (true) {
                if (!works) {
                    LockSupport.parkNanos(1_000_000);
                    continue;
                }
                int found = 0;
                for (ConsumerRecord<byte[], byte[]> record : consumer.poll(Duration.ofMillis(500))) {
                    found++;
                    took(System.nanoTime() - ByteBuffer.wrap(record.value()).getLong());
                }
                got.addAndGet(found);
            }
        }

        private synchronized void took(long nanos) {
            if (count < times.length) times[count++] = nanos;
        }

        synchronized void forget() {
            count = 0;
        }

        synchronized java.util.stream.LongStream taken() {
            return Arrays.stream(Arrays.copyOf(times, count));
        }
    }
}
