import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.lang.management.ManagementFactory;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Properties;
import java.util.concurrent.ConcurrentLinkedQueue;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/**
 * Transactions one after the other with Apache Kafka's own producer, for bench/transactions.py.
 *
 * Arguments: bootstrap servers, topic, partitions, producers, records of a transaction, bytes of a record. Each line of the input is
 * a number of seconds; for so long all producers commit, and a line is written: transactions, seconds, seconds of this process's
 * processor, and milliseconds of a call of commitTransaction: median, 90th and 99th of a hundred.
 */
public class Transactions {
    public static void main(String[] arguments) throws Exception {
        int partitions = Integer.parseInt(arguments[2]);
        int producers = Integer.parseInt(arguments[3]);
        int records = Integer.parseInt(arguments[4]);
        byte[] value = new byte[Integer.parseInt(arguments[5])];
        Arrays.fill(value, (byte) 'v');
        List<KafkaProducer<byte[], byte[]>> all = new ArrayList<>();
        for (int number = 0; number < producers; number++) {
            Properties given = new Properties();
            given.put("bootstrap.servers", arguments[0]);
            given.put("transactional.id", "java-" + number);
            given.put("acks", "all");
            all.add(new KafkaProducer<>(given, new ByteArraySerializer(), new ByteArraySerializer()));
            all.get(number).initTransactions();
        }
        var processor = (com.sun.management.OperatingSystemMXBean) ManagementFactory.getOperatingSystemMXBean();
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
        System.out.println("ready");
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            long begun = System.nanoTime();
            long end = begun + (long) (Double.parseDouble(line) * 1e9);
            long cpu = processor.getProcessCpuTime();
            ConcurrentLinkedQueue<Long> commits = new ConcurrentLinkedQueue<>();
            List<Thread> threads = new ArrayList<>();
            for (int number = 0; number < producers; number++) {
                KafkaProducer<byte[], byte[]> producer = all.get(number);
                int partition = number % partitions;
                Thread thread = new Thread(() -> {
                    while (System.nanoTime() < end) {
                        producer.beginTransaction();
                        for (int record = 0; record < records; record++) {
                            producer.send(new ProducerRecord<>(arguments[1], partition, null, value));
                        }
                        long asked = System.nanoTime();
                        producer.commitTransaction();
                        commits.add(System.nanoTime() - asked);
                    }
                });
                thread.start();
                threads.add(thread);
            }
            for (Thread thread : threads) {
                thread.join();
            }
            double seconds = (System.nanoTime() - begun) / 1e9;
            long[] sorted = commits.stream().mapToLong(Long::longValue).sorted().toArray();
            System.out.printf(
                "%d %f %f %f %f %f%n", sorted.length, seconds, (processor.getProcessCpuTime() - cpu) / 1e9,
                sorted[sorted.length / 2] / 1e6, sorted[sorted.length * 9 / 10] / 1e6, sorted[sorted.length * 99 / 100] / 1e6);
        }
        for (KafkaProducer<byte[], byte[]> producer : all) {
            producer.close();
        }
    }
}
