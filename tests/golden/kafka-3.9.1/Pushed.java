// Prints the requests and answers of controllers that push metadata (pushed.txt), and of what brokers ask them (asked.txt), as the classes of a released kafka-clients write them.
// Each line of the input, and of those files: message, version, its JSON; the output has the bytes in hexadecimal behind it.
//
//     java -cp "kafka-clients-3.9.1.jar:jackson-databind.jar:jackson-core.jar:jackson-annotations.jar" Pushed.java < cases
//
// ../kafka-2.8.2/pushed.txt was written by kafka-clients 2.8.2, which calls the partition epoch zkVersion.

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.ByteBuffer;
import java.util.HexFormat;
import org.apache.kafka.common.protocol.ByteBufferAccessor;
import org.apache.kafka.common.protocol.Message;
import org.apache.kafka.common.protocol.ObjectSerializationCache;

public class Pushed {
    public static void main(String[] args) throws Exception {
        var in = new BufferedReader(new InputStreamReader(System.in));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            String[] parts = line.split(" ", 3);
            short version = Short.parseShort(parts[1]);
            JsonNode json = new ObjectMapper().readTree(parts[2]);
            Message message = (Message) Class.forName("org.apache.kafka.common.message." + parts[0] + "DataJsonConverter")
                .getMethod("read", JsonNode.class, short.class).invoke(null, json, version);
            var cache = new ObjectSerializationCache();
            ByteBuffer buffer = ByteBuffer.allocate(message.size(cache, version));
            message.write(new ByteBufferAccessor(buffer), cache, version);
            System.out.println(line + " " + HexFormat.of().formatHex(buffer.array()));
        }
    }
}
