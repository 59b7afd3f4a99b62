// Prints what Apache Kafka 4.3.1's CurrentAssignmentBuilder makes of members in random states, a case a line as JSON.
//
//     java -cp '.kafka/libs/*' tests/golden/kafka-4.3.1/streams_groups/Reconciliation.java > reconciliation.txt

import org.apache.kafka.common.errors.FencedMemberEpochException;
import org.apache.kafka.coordinator.group.streams.*;
import java.util.*;
import java.util.stream.*;

public class Reconciliation {
  static final Random random = new Random(1);
  static final String[] ROLES = {"active", "standby", "warmup"};
  // role -> subtopology -> partition -> epoch
  static List<Map<String, Map<Integer, Integer>>> nothing() {
    List<Map<String, Map<Integer, Integer>>> found = new ArrayList<>();
    for (String role : ROLES) found.add(new TreeMap<>());
    return found;
  }

  static void put(List<Map<String, Map<Integer, Integer>>> tasks, int role, String subtopology, int partition) {
    tasks.get(role).computeIfAbsent(subtopology, x -> new TreeMap<>()).put(partition, 1 + random.nextInt(3));
  }

  static Map<String, Set<Integer>> sets(Map<String, Map<Integer, Integer>> tasks) {
    return tasks.entrySet().stream().collect(Collectors.toMap(Map.Entry::getKey, x -> new TreeSet<>(x.getValue().keySet())));
  }

  static TasksTupleWithEpochs held(List<Map<String, Map<Integer, Integer>>> tasks) {
    return new TasksTupleWithEpochs(tasks.get(0), sets(tasks.get(1)), sets(tasks.get(2)));
  }

  static TasksTuple tuple(List<Map<String, Map<Integer, Integer>>> tasks) {
    return new TasksTuple(sets(tasks.get(0)), sets(tasks.get(1)), sets(tasks.get(2)));
  }

  static String text(Map<String, ? extends Collection<Integer>> sets) {
    return new TreeMap<>(sets).entrySet().stream().map(x -> "\"" + x.getKey() + "\":" + new TreeSet<>(x.getValue()).toString().replace(" ", ""))
        .collect(Collectors.joining(",", "{", "}"));
  }

  static String text(TasksTuple tasks) {
    return "[" + text(tasks.activeTasks()) + "," + text(tasks.standbyTasks()) + "," + text(tasks.warmupTasks()) + "]";
  }

  static String text(TasksTupleWithEpochs tasks) {
    String active = new TreeMap<>(tasks.activeTasksWithEpochs()).entrySet().stream().map(x -> "\"" + x.getKey() + "\":"
        + new TreeMap<>(x.getValue()).entrySet().stream().map(y -> "\"" + y.getKey() + "\":" + y.getValue()).collect(Collectors.joining(",", "{", "}")))
        .collect(Collectors.joining(",", "{", "}"));
    return "[" + active + "," + text(tasks.standbyTasks()) + "," + text(tasks.warmupTasks()) + "]";
  }

  static String text(StreamsGroupMember member) {
    return "[" + member.memberEpoch() + "," + member.previousMemberEpoch() + "," + member.state().value() + ","
        + text(member.assignedTasks()) + "," + text(member.tasksPendingRevocation()) + "]";
  }

  public static void main(String[] arguments) {
    MemberState[] states = {MemberState.STABLE, MemberState.UNREVOKED_TASKS, MemberState.UNREVOKED_TASKS, MemberState.UNRELEASED_TASKS, MemberState.UNKNOWN};
    for (int number = 0; number < 250; number++) {
      MemberState state = states[random.nextInt(states.length)];
      int epoch = 3 + random.nextInt(2), target = epoch + random.nextInt(3);
      var assigned = nothing(); var revoking = nothing(); var wanted = nothing(); var owned = nothing();
      // (role, subtopology, partition) that other members have: "p" is the member's own process, "q" another.
      Map<String, Set<String>> others = new TreeMap<>();
      for (String subtopology : List.of("0", "1"))
        for (int partition = 0; partition < 3; partition++) {
          int mine = random.nextInt(8);
          int role = random.nextInt(3);
          boolean letsGo = state == MemberState.UNREVOKED_TASKS && mine >= 2 && mine < 4;
          if (mine < 2 || letsGo) put(letsGo ? revoking : assigned, role, subtopology, partition);
          if ((mine < 2 || letsGo) && random.nextInt(3) > 0) put(owned, role, subtopology, partition);
          if (random.nextInt(3) > 0) put(wanted, random.nextInt(4) > 0 && (mine < 2) ? role : random.nextInt(3), subtopology, partition);
          if (mine >= 4 && random.nextInt(2) == 0)
            others.computeIfAbsent(ROLES[role] + " " + subtopology + " " + partition, x -> new TreeSet<>()).add(random.nextBoolean() ? "p" : "q");
        }
      boolean says = random.nextInt(4) > 0;
      Map<String, Set<String>> all = new TreeMap<>();
      others.forEach((key, value) -> all.put(key, new TreeSet<>(value)));
      for (var tasks : List.of(assigned, revoking))
        for (int role = 0; role < 3; role++) {
          int at = role;
          tasks.get(role).forEach((subtopology, partitions) -> partitions.keySet().forEach(partition ->
              all.computeIfAbsent(ROLES[at] + " " + subtopology + " " + partition, x -> new TreeSet<>()).add("p")));
        }
      StreamsGroupMember member = StreamsGroupMember.Builder.withDefaults("m").setProcessId("p").setState(state).setMemberEpoch(epoch)
          .setPreviousMemberEpoch(epoch - 1).setAssignedTasks(held(assigned)).setTasksPendingRevocation(held(revoking)).build();
      String outcome;
      try {
        outcome = text(new CurrentAssignmentBuilder(member).withTargetAssignment(target, tuple(wanted))
            .withCurrentActiveTaskProcessId((s, n) -> all.getOrDefault("active " + s + " " + n, Set.of()).stream().findFirst().orElse(null))
            .withCurrentStandbyTaskProcessIds((s, n) -> all.getOrDefault("standby " + s + " " + n, Set.of()))
            .withCurrentWarmupTaskProcessIds((s, n) -> all.getOrDefault("warmup " + s + " " + n, Set.of()))
            .withOwnedAssignment(says ? tuple(owned) : null).build());
      } catch (FencedMemberEpochException fenced) {
        outcome = "\"fenced\"";
      }
      String elsewhere = others.entrySet().stream().map(x -> "\"" + x.getKey() + "\":\"" + x.getValue().iterator().next() + "\"").collect(Collectors.joining(",", "{", "}"));
      System.out.println("[" + text(member) + "," + target + "," + text(tuple(wanted)) + "," + (says ? text(tuple(owned)) : "null") + "," + elsewhere + "," + outcome + "]");
    }
  }
}
