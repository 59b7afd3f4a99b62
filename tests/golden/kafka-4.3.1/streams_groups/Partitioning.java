// Prints what Apache Kafka 4.3.1's InternalTopicManager makes of random topologies and topics, a case a line as JSON.
//
//     java -cp '.kafka/libs/*' tests/golden/kafka-4.3.1/streams_groups/Partitioning.java > partitioning.txt
//
// Left out are topologies with a copartition group of repartition topics alone beside a repartition topic of another group
// whose size is said: Kafka takes that size for the group as well.

import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.coordinator.common.runtime.*;
import org.apache.kafka.coordinator.group.generated.StreamsGroupTopologyValue;
import org.apache.kafka.coordinator.group.streams.StreamsTopology;
import org.apache.kafka.coordinator.group.streams.topics.*;
import org.slf4j.helpers.NOPLogger;
import java.util.*;
import java.util.stream.*;

public class Partitioning {
  static final Random random = new Random(3);

  static List<String> some(List<String> from, int most) {
    List<String> mixed = new ArrayList<>(from);
    Collections.shuffle(mixed, random);
    return new ArrayList<>(mixed.subList(0, Math.min(mixed.size(), random.nextInt(most + 1))));
  }

  static String text(Collection<String> names) {
    return names.stream().map(x -> "\"" + x + "\"").collect(Collectors.joining(",", "[", "]"));
  }

  static String text(Map<String, Integer> numbers) {
    return new TreeMap<>(numbers).entrySet().stream().map(x -> "\"" + x.getKey() + "\":" + x.getValue()).collect(Collectors.joining(",", "{", "}"));
  }

  static List<StreamsGroupTopologyValue.TopicInfo> infos(List<String> names, Map<String, Integer> said) {
    return names.stream().map(x -> new StreamsGroupTopologyValue.TopicInfo().setName(x).setPartitions(said.getOrDefault(x, 0)).setTopicConfigs(List.of())).toList();
  }

  static CoordinatorMetadataImage image(Map<String, Integer> sizes) {
    return new CoordinatorMetadataImage() {
      public Set<Uuid> topicIds() { return Set.of(); }
      public Set<String> topicNames() { return sizes.keySet(); }
      public Optional<TopicMetadata> topicMetadata(Uuid id) { return Optional.empty(); }
      public CoordinatorMetadataDelta emptyDelta() { return null; }
      public long version() { return 1; }
      public boolean isEmpty() { return false; }
      public Optional<TopicMetadata> topicMetadata(String name) {
        return Optional.ofNullable(sizes.get(name)).map(size -> new TopicMetadata() {
          public String name() { return name; }
          public Uuid id() { return Uuid.ZERO_UUID; }
          public int partitionCount() { return size; }
          public List<String> partitionRacks(int partition) { return List.of(); }
        });
      }
    };
  }

  public static void main(String[] arguments) {
    List<String> sources = List.of("a", "b", "c");
    List<String> repartitions = List.of("r1", "r2", "r3");
    for (int shown = 0; shown < 250;) {
      Map<String, Integer> sizes = new TreeMap<>(), said = new TreeMap<>();
      int usual = 1 + random.nextInt(3);
      for (String name : sources) if (random.nextInt(15) > 0) sizes.put(name, random.nextInt(4) > 0 ? usual : 1 + random.nextInt(4));
      for (String name : repartitions) {
        if (random.nextInt(4) == 0) said.put(name, random.nextInt(3) > 0 ? usual : 1 + random.nextInt(4));
        if (random.nextInt(4) == 0) sizes.put(name, random.nextInt(4) > 0 ? usual : 1 + random.nextInt(4));
      }
      List<StreamsGroupTopologyValue.Subtopology> parts = new ArrayList<>();
      List<String> left = new ArrayList<>(repartitions);
      boolean quirk = false;
      Set<String> allRepartitions = new TreeSet<>();
      List<List<String>> groups = new ArrayList<>();
      String described = "";
      for (int number = 0; number < 1 + random.nextInt(3); number++) {
        List<String> reads = some(sources, 2), again = some(left, 2), writes = number == 0 && random.nextInt(6) > 0 ? repartitions : some(repartitions, 2), logs = new ArrayList<>();
        if (reads.isEmpty() && again.isEmpty()) reads = new ArrayList<>(List.of("a"));
        left.removeAll(again);
        allRepartitions.addAll(again);
        if (random.nextInt(2) == 0) logs.add("log" + number);
        if (!logs.isEmpty() && random.nextInt(3) == 0) sizes.put("log" + number, random.nextInt(4) > 0 ? usual : 1 + random.nextInt(4));
        List<StreamsGroupTopologyValue.CopartitionGroup> together = new ArrayList<>();
        if (random.nextInt(2) == 0) {
          together.add(new StreamsGroupTopologyValue.CopartitionGroup()
              .setSourceTopics(IntStream.range(0, reads.size()).mapToObj(x -> (short) x).toList())
              .setRepartitionSourceTopics(IntStream.range(0, again.size()).mapToObj(x -> (short) x).toList()));
          if (reads.isEmpty()) groups.add(again);
        }
        parts.add(new StreamsGroupTopologyValue.Subtopology().setSubtopologyId("" + number).setSourceTopics(reads)
            .setRepartitionSinkTopics(writes).setRepartitionSourceTopics(infos(again, said)).setStateChangelogTopics(infos(logs, Map.of()))
            .setCopartitionGroups(together));
        described += (number > 0 ? "," : "") + "[" + text(reads) + "," + text(again) + "," + text(writes) + "," + text(logs) + "," + !together.isEmpty() + "]";
      }
      for (List<String> group : groups) for (String name : allRepartitions) if (said.containsKey(name) && !group.contains(name)) quirk = true;
      if (quirk) continue;
      String outcome;
      try {
        ConfiguredTopology found = InternalTopicManager.configureTopics(NOPLogger.NOP_LOGGER, "g", "m", 0,
            new StreamsTopology(1, parts.stream().collect(Collectors.toMap(StreamsGroupTopologyValue.Subtopology::subtopologyId, x -> x))), image(sizes), Time.SYSTEM);
        Map<String, Integer> tasks = new TreeMap<>(), made = new TreeMap<>();
        found.subtopologies().ifPresent(x -> x.forEach((id, one) -> tasks.put(id, one.numberOfTasks())));
        found.internalTopicsToBeCreated().forEach((name, topic) -> made.put(name, topic.numPartitions()));
        outcome = "[" + found.topicConfigurationException().map(x -> "" + x.status().code()).orElse("null") + "," + text(tasks) + "," + text(made) + "]";
      } catch (RuntimeException refused) {
        outcome = "\"" + refused.getClass().getSimpleName() + "\"";
      }
      System.out.println("[" + text(sizes) + "," + text(said) + ",[" + described + "]," + outcome + "]");
      shown++;
    }
  }
}
