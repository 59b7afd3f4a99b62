// Prints records of a share group in __consumer_offsets as Apache Kafka 4.3.1's own classes write them: name, key, value.
//
//     java -cp '.kafka/libs/*' tests/golden/kafka-4.3.1/share_group_state/Groups.java > groups.txt

import java.util.HexFormat;
import java.util.List;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.protocol.ApiMessage;
import org.apache.kafka.common.protocol.MessageUtil;
import org.apache.kafka.coordinator.group.generated.*;

public class Groups {
    static void row(String name, int type, ApiMessage key, ApiMessage value) {
        HexFormat hex = HexFormat.of();
        System.out.println(name + " " + hex.formatHex(MessageUtil.toCoordinatorTypePrefixedBytes(key)) + " "
            + (value == null ? "-" : hex.formatHex(MessageUtil.toVersionPrefixedBytes((short) 0, value))));
    }

    public static void main(String[] arguments) {
        Uuid t = new Uuid(0x0102030405060708L, 0x090a0b0c0d0e0f10L), u = new Uuid(0x1102030405060708L, 0x090a0b0c0d0e0f10L);
        row("group", 11, new ShareGroupMetadataKey().setGroupId("g"), new ShareGroupMetadataValue().setEpoch(7).setMetadataHash(0x1122334455667788L));
        row("group-gone", 11, new ShareGroupMetadataKey().setGroupId("g"), null);
        row("member", 10, new ShareGroupMemberMetadataKey().setGroupId("g").setMemberId("m"), new ShareGroupMemberMetadataValue()
            .setRackId("r").setClientId("c").setClientHost("/127.0.0.1").setSubscribedTopicNames(List.of("t", "u")));
        row("member-plain", 10, new ShareGroupMemberMetadataKey().setGroupId("\u00fc").setMemberId("m"), new ShareGroupMemberMetadataValue()
            .setRackId(null).setClientId("c").setClientHost("/127.0.0.1").setSubscribedTopicNames(List.of()));
        row("member-gone", 10, new ShareGroupMemberMetadataKey().setGroupId("g").setMemberId("m"), null);
        row("target-epoch", 12, new ShareGroupTargetAssignmentMetadataKey().setGroupId("g"),
            new ShareGroupTargetAssignmentMetadataValue().setAssignmentEpoch(7).setAssignmentTimestamp(1700000000000L));
        row("target-epoch-gone", 12, new ShareGroupTargetAssignmentMetadataKey().setGroupId("g"), null);
        row("target", 13, new ShareGroupTargetAssignmentMemberKey().setGroupId("g").setMemberId("m"), new ShareGroupTargetAssignmentMemberValue()
            .setTopicPartitions(List.of(new ShareGroupTargetAssignmentMemberValue.TopicPartition().setTopicId(t).setPartitions(List.of(0, 3)))));
        row("target-gone", 13, new ShareGroupTargetAssignmentMemberKey().setGroupId("g").setMemberId("m"), null);
        row("current", 14, new ShareGroupCurrentMemberAssignmentKey().setGroupId("g").setMemberId("m"), new ShareGroupCurrentMemberAssignmentValue()
            .setMemberEpoch(7).setPreviousMemberEpoch(6).setState((byte) 0)
            .setAssignedPartitions(List.of(new ShareGroupCurrentMemberAssignmentValue.TopicPartitions().setTopicId(t).setPartitions(List.of(0, 3)))));
        row("current-gone", 14, new ShareGroupCurrentMemberAssignmentKey().setGroupId("g").setMemberId("m"), null);
        row("state", 15, new ShareGroupStatePartitionMetadataKey().setGroupId("g"), new ShareGroupStatePartitionMetadataValue()
            .setInitializingTopics(List.of(new ShareGroupStatePartitionMetadataValue.TopicPartitionsInfo().setTopicId(t).setTopicName("t").setPartitions(List.of(2))))
            .setInitializedTopics(List.of(new ShareGroupStatePartitionMetadataValue.TopicPartitionsInfo().setTopicId(t).setTopicName("t").setPartitions(List.of(0, 1))))
            .setDeletingTopics(List.of(new ShareGroupStatePartitionMetadataValue.TopicInfo().setTopicId(u).setTopicName("u"))));
        row("state-gone", 15, new ShareGroupStatePartitionMetadataKey().setGroupId("g"), null);
    }
}
