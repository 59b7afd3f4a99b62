// Prints what Apache Kafka 4.3.1's StickyTaskAssignor assigns in random groups, a case a line as JSON.
//
//     java -cp '.kafka/libs/*' tests/golden/kafka-4.3.1/streams_groups/Assignor.java > assignor.txt

import org.apache.kafka.coordinator.group.streams.assignor.*;
import java.util.*;
import java.util.stream.*;

public class Assignor {
  static final Random random = new Random(2);

  static String text(Map<String, Set<Integer>> sets) {
    return new TreeMap<>(sets).entrySet().stream().map(x -> "\"" + x.getKey() + "\":" + new TreeSet<>(x.getValue()).toString().replace(" ", ""))
        .collect(Collectors.joining(",", "{", "}"));
  }

  public static void main(String[] arguments) {
    for (int number = 0; number < 60; number++) {
      Map<String, Integer> tasks = new TreeMap<>();
      Set<String> stateful = new TreeSet<>();
      for (int part = 0; part < 1 + random.nextInt(3); part++) {
        tasks.put("" + part, 1 + random.nextInt(6));
        if (random.nextBoolean()) stateful.add("" + part);
      }
      TopologyDescriber topology = new TopologyDescriber() {
        public List<String> subtopologies() { return List.copyOf(tasks.keySet()); }
        public int maxNumInputPartitions(String one) { return tasks.get(one); }
        public boolean isStateful(String one) { return stateful.contains(one); }
      };
      int standby = random.nextInt(3), processes = 1 + random.nextInt(4);
      Map<String, MemberAssignment> before = new TreeMap<>();
      Map<String, String> process = new TreeMap<>();
      int next = 0;
      for (int round = 0; round < 3; round++) {  // members come and go, and each round begins with what the last one gave
        for (String id : List.copyOf(process.keySet())) if (random.nextInt(4) == 0) { process.remove(id); before.remove(id); }
        do process.put("m" + next++, "p" + random.nextInt(processes)); while (random.nextInt(3) > 0);
        Map<String, AssignmentMemberSpec> members = new HashMap<>();
        process.forEach((id, at) -> {
          MemberAssignment had = before.getOrDefault(id, new MemberAssignment(Map.of(), Map.of(), Map.of()));
          members.put(id, new AssignmentMemberSpec(Optional.empty(), Optional.empty(), had.activeTasks(), had.standbyTasks(), Map.of(), at, Map.of(), Map.of(), Map.of()));
        });
        GroupAssignment found = new StickyTaskAssignor().assign(new GroupSpecImpl(members, Map.of("num.standby.replicas", "" + standby)), topology);
        String placed = members.entrySet().stream().sorted(Map.Entry.comparingByKey()).map(x -> "\"" + x.getKey() + "\":[\"" + x.getValue().processId() + "\","
            + text(x.getValue().activeTasks()) + "," + text(x.getValue().standbyTasks()) + "]").collect(Collectors.joining(",", "{", "}"));
        String given = new TreeMap<>(found.members()).entrySet().stream().map(x -> "\"" + x.getKey() + "\":[" + text(x.getValue().activeTasks()) + ","
            + text(x.getValue().standbyTasks()) + "]").collect(Collectors.joining(",", "{", "}"));
        String sizes = tasks.entrySet().stream().map(x -> "\"" + x.getKey() + "\":" + x.getValue()).collect(Collectors.joining(",", "{", "}"));
        String keeps = stateful.stream().map(x -> "\"" + x + "\"").collect(Collectors.joining(",", "[", "]"));
        System.out.println("[" + sizes + "," + keeps + "," + standby + "," + placed + "," + given + "]");
        before.putAll(found.members());
      }
    }
  }
}
