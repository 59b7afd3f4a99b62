// Prints records of a streams group in __consumer_offsets as Apache Kafka 4.3.1's own classes write them: name, key, value.
//
//     java -cp '.kafka/libs/*' tests/golden/kafka-4.3.1/streams_groups/Records.java > records.txt

import org.apache.kafka.common.protocol.*;
import org.apache.kafka.coordinator.group.generated.*;
import java.util.*;

public class Records {
  static String hex(byte[] bytes) {
    StringBuilder text = new StringBuilder();
    for (byte one : bytes) text.append(String.format("%02x", one));
    return text.toString();
  }

  static void row(String name, Message key, Message value) {
    System.out.println(name + " " + hex(MessageUtil.toCoordinatorTypePrefixedBytes((ApiMessage) key)) + " "
        + (value == null ? "-" : hex(MessageUtil.toVersionPrefixedBytes((short) 0, value))));
  }

  static StreamsGroupTopologyValue.TopicInfo topic(String name, int partitions, int replicas, String... configs) {
    List<StreamsGroupTopologyValue.TopicConfig> given = new ArrayList<>();
    for (int i = 0; i < configs.length; i += 2)
      given.add(new StreamsGroupTopologyValue.TopicConfig().setKey(configs[i]).setValue(configs[i + 1]));
    return new StreamsGroupTopologyValue.TopicInfo().setName(name).setPartitions(partitions)
        .setReplicationFactor((short) replicas).setTopicConfigs(given);
  }

  static StreamsGroupCurrentMemberAssignmentValue.TaskIds has(String subtopology, List<Integer> partitions, List<Integer> epochs) {
    var found = new StreamsGroupCurrentMemberAssignmentValue.TaskIds().setSubtopologyId(subtopology).setPartitions(partitions);
    return epochs == null ? found : found.setAssignmentEpochs(epochs);
  }

  static StreamsGroupTargetAssignmentMemberValue.TaskIds wants(String subtopology, Integer... partitions) {
    return new StreamsGroupTargetAssignmentMemberValue.TaskIds().setSubtopologyId(subtopology).setPartitions(List.of(partitions));
  }

  public static void main(String[] arguments) {
    row("group", new StreamsGroupMetadataKey().setGroupId("g"), new StreamsGroupMetadataValue().setEpoch(7)
        .setMetadataHash(0x1122334455667788L).setValidatedTopologyEpoch(3).setLastAssignmentConfigs(List.of(
            new StreamsGroupMetadataValue.LastAssignmentConfig().setKey("num.standby.replicas").setValue("1"))));
    row("group-not-valid", new StreamsGroupMetadataKey().setGroupId("g"), new StreamsGroupMetadataValue().setEpoch(2));
    row("group-gone", new StreamsGroupMetadataKey().setGroupId("g"), null);
    row("member", new StreamsGroupMemberMetadataKey().setGroupId("g").setMemberId("m"), new StreamsGroupMemberMetadataValue()
        .setInstanceId("i").setRackId("r").setClientId("c").setClientHost("/127.0.0.1").setRebalanceTimeoutMs(300000)
        .setTopologyEpoch(3).setProcessId("p")
        .setUserEndpoint(new StreamsGroupMemberMetadataValue.Endpoint().setHost("h").setPort(50000))
        .setClientTags(List.of(new StreamsGroupMemberMetadataValue.KeyValue().setKey("zone").setValue("a"))));
    row("member-plain", new StreamsGroupMemberMetadataKey().setGroupId("\u00fc").setMemberId("m"),
        new StreamsGroupMemberMetadataValue().setInstanceId(null).setRackId(null).setClientId("c").setClientHost("/127.0.0.1")
        .setRebalanceTimeoutMs(45000).setTopologyEpoch(0).setProcessId("p").setUserEndpoint(null).setClientTags(List.of()));
    row("member-gone", new StreamsGroupMemberMetadataKey().setGroupId("g").setMemberId("m"), null);
    row("target-epoch", new StreamsGroupTargetAssignmentMetadataKey().setGroupId("g"),
        new StreamsGroupTargetAssignmentMetadataValue().setAssignmentEpoch(7).setAssignmentTimestamp(1700000000000L));
    row("target-epoch-without-time", new StreamsGroupTargetAssignmentMetadataKey().setGroupId("g"),
        new StreamsGroupTargetAssignmentMetadataValue().setAssignmentEpoch(7));
    row("target-epoch-gone", new StreamsGroupTargetAssignmentMetadataKey().setGroupId("g"), null);
    row("target", new StreamsGroupTargetAssignmentMemberKey().setGroupId("g").setMemberId("m"),
        new StreamsGroupTargetAssignmentMemberValue().setActiveTasks(List.of(wants("0", 0, 2), wants("1", 1)))
        .setStandbyTasks(List.of(wants("1", 0))).setWarmupTasks(List.of(wants("2", 5))));
    row("target-gone", new StreamsGroupTargetAssignmentMemberKey().setGroupId("g").setMemberId("m"), null);
    row("current", new StreamsGroupCurrentMemberAssignmentKey().setGroupId("g").setMemberId("m"),
        new StreamsGroupCurrentMemberAssignmentValue().setMemberEpoch(7).setPreviousMemberEpoch(6).setState((byte) 2)
        .setActiveTasks(List.of(has("0", List.of(0, 2), List.of(5, 7)))).setStandbyTasks(List.of(has("1", List.of(0), null)))
        .setWarmupTasks(List.of(has("2", List.of(5), null)))
        .setActiveTasksPendingRevocation(List.of(has("1", List.of(1), List.of(6))))
        .setStandbyTasksPendingRevocation(List.of(has("1", List.of(2), null)))
        .setWarmupTasksPendingRevocation(List.of(has("2", List.of(6), null))));
    row("current-without-epochs", new StreamsGroupCurrentMemberAssignmentKey().setGroupId("g").setMemberId("m"),
        new StreamsGroupCurrentMemberAssignmentValue().setMemberEpoch(7).setPreviousMemberEpoch(6).setState((byte) 1)
        .setActiveTasks(List.of(has("0", List.of(0, 2), null))));
    row("current-gone", new StreamsGroupCurrentMemberAssignmentKey().setGroupId("g").setMemberId("m"), null);
    row("topology", new StreamsGroupTopologyKey().setGroupId("g"), new StreamsGroupTopologyValue().setEpoch(3)
        .setSubtopologies(List.of(
            new StreamsGroupTopologyValue.Subtopology().setSubtopologyId("0").setSourceTopics(List.of("lines"))
                .setRepartitionSinkTopics(List.of("app-words-repartition")),
            new StreamsGroupTopologyValue.Subtopology().setSubtopologyId("1").setSourceTopics(List.of("left", "right"))
                .setSourceTopicRegex(List.of("more.*"))
                .setStateChangelogTopics(List.of(topic("app-counts-changelog", 0, 3, "cleanup.policy", "compact")))
                .setRepartitionSourceTopics(List.of(topic("app-words-repartition", 4, 0, "retention.ms", "-1")))
                .setCopartitionGroups(List.of(new StreamsGroupTopologyValue.CopartitionGroup()
                    .setSourceTopics(List.of((short) 0, (short) 1)).setSourceTopicRegex(List.of((short) 0))
                    .setRepartitionSourceTopics(List.of((short) 0)))))));
    row("topology-gone", new StreamsGroupTopologyKey().setGroupId("g"), null);
  }
}
