import java.util.*;
import org.apache.kafka.common.utils.Utils;
import org.apache.kafka.clients.producer.internals.BuiltInPartitioner;
public class Partitions {
  public static void main(String[] a) {
    Random r = new Random(44);
    StringBuilder out = new StringBuilder("[\n");
    for (int n = 0; n < 64; n++) {
      byte[] key = new byte[n < 40 ? n : r.nextInt(300)];
      r.nextBytes(key);
      StringBuilder hex = new StringBuilder();
      for (byte b : key) hex.append(String.format("%02x", b & 0xff));
      int parts = n % 2 == 0 ? 1 + r.nextInt(20) : 1 + r.nextInt(100000);
      out.append(String.format("[\"%s\", %d, %d, %d]%s\n", hex, Utils.murmur2(key), parts,
        BuiltInPartitioner.partitionForKey(key, parts), n < 63 ? "," : ""));
    }
    System.out.print(out + "]\n");
  }
}
