// Prints records of a consumer group in __consumer_offsets as Apache Kafka 4.3.1's own classes write them: name, key, value.
//
//     java -cp '.kafka/libs/*' tests/golden/kafka-4.3.1/consumer_groups/Records.java > records.txt

import org.apache.kafka.coordinator.group.generated.*;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.protocol.*;
import java.util.*;
public class Records {
  static String hex(byte[] b){StringBuilder s=new StringBuilder();for(byte x:b)s.append(String.format("%02x",x));return s.toString();}
  static void row(String name,int type,Message key,Message value,int version){
    System.out.println(name+" "+hex(MessageUtil.toCoordinatorTypePrefixedBytes((ApiMessage)key))+" "+(value==null?"-":hex(MessageUtil.toVersionPrefixedBytes((short)version,value))));}
  public static void main(String[] a){
    Uuid t=new Uuid(0x0102030405060708L,0x090a0b0c0d0e0f10L);
    row("group",3,new ConsumerGroupMetadataKey().setGroupId("g"),new ConsumerGroupMetadataValue().setEpoch(7).setMetadataHash(0x1122334455667788L),0);
    row("group-without-hash",3,new ConsumerGroupMetadataKey().setGroupId("g"),new ConsumerGroupMetadataValue().setEpoch(1),0);
    row("group-gone",3,new ConsumerGroupMetadataKey().setGroupId("g"),null,0);
    row("partition-metadata",4,new ConsumerGroupPartitionMetadataKey().setGroupId("g"),new ConsumerGroupPartitionMetadataValue().setTopics(List.of(new ConsumerGroupPartitionMetadataValue.TopicMetadata().setTopicId(t).setTopicName("t").setNumPartitions(2))),0);
    row("partition-metadata-gone",4,new ConsumerGroupPartitionMetadataKey().setGroupId("g"),null,0);
    row("member",5,new ConsumerGroupMemberMetadataKey().setGroupId("g").setMemberId("m"),new ConsumerGroupMemberMetadataValue().setInstanceId("i").setRackId("r").setClientId("c").setClientHost("/127.0.0.1").setSubscribedTopicNames(List.of("t","u")).setSubscribedTopicRegex("t.*").setRebalanceTimeoutMs(300000).setServerAssignor("range").setClassicMemberMetadata(null),0);
    row("member-plain",5,new ConsumerGroupMemberMetadataKey().setGroupId("\u00fc").setMemberId("m"),new ConsumerGroupMemberMetadataValue().setInstanceId(null).setRackId(null).setClientId("c").setClientHost("/127.0.0.1").setSubscribedTopicNames(List.of()).setSubscribedTopicRegex("").setRebalanceTimeoutMs(45000).setServerAssignor(null).setClassicMemberMetadata(null),0);
    row("member-classic",5,new ConsumerGroupMemberMetadataKey().setGroupId("g").setMemberId("m"),new ConsumerGroupMemberMetadataValue().setInstanceId(null).setRackId(null).setClientId("c").setClientHost("/127.0.0.1").setSubscribedTopicNames(List.of("t")).setSubscribedTopicRegex("").setRebalanceTimeoutMs(45000).setServerAssignor(null).setClassicMemberMetadata(new ConsumerGroupMemberMetadataValue.ClassicMemberMetadata().setSessionTimeoutMs(6000).setSupportedProtocols(List.of(new ConsumerGroupMemberMetadataValue.ClassicProtocol().setName("range").setMetadata(new byte[]{1,2,3})))),0);
    row("member-gone",5,new ConsumerGroupMemberMetadataKey().setGroupId("g").setMemberId("m"),null,0);
    row("target-epoch",6,new ConsumerGroupTargetAssignmentMetadataKey().setGroupId("g"),new ConsumerGroupTargetAssignmentMetadataValue().setAssignmentEpoch(7).setAssignmentTimestamp(1700000000000L),0);
    row("target-epoch-gone",6,new ConsumerGroupTargetAssignmentMetadataKey().setGroupId("g"),null,0);
    row("target",7,new ConsumerGroupTargetAssignmentMemberKey().setGroupId("g").setMemberId("m"),new ConsumerGroupTargetAssignmentMemberValue().setTopicPartitions(List.of(new ConsumerGroupTargetAssignmentMemberValue.TopicPartition().setTopicId(t).setPartitions(List.of(0,3)))),0);
    row("target-gone",7,new ConsumerGroupTargetAssignmentMemberKey().setGroupId("g").setMemberId("m"),null,0);
    row("current",8,new ConsumerGroupCurrentMemberAssignmentKey().setGroupId("g").setMemberId("m"),new ConsumerGroupCurrentMemberAssignmentValue().setMemberEpoch(7).setPreviousMemberEpoch(6).setState((byte)1)
      .setAssignedPartitions(List.of(new ConsumerGroupCurrentMemberAssignmentValue.TopicPartitions().setTopicId(t).setPartitions(List.of(0,3)).setAssignmentEpochs(List.of(5,7))))
      .setPartitionsPendingRevocation(List.of(new ConsumerGroupCurrentMemberAssignmentValue.TopicPartitions().setTopicId(t).setPartitions(List.of(1)).setAssignmentEpochs(List.of(6)))),0);
    row("current-without-epochs",8,new ConsumerGroupCurrentMemberAssignmentKey().setGroupId("g").setMemberId("m"),new ConsumerGroupCurrentMemberAssignmentValue().setMemberEpoch(7).setPreviousMemberEpoch(6).setState((byte)0)
      .setAssignedPartitions(List.of(new ConsumerGroupCurrentMemberAssignmentValue.TopicPartitions().setTopicId(t).setPartitions(List.of(0,3)))),0);
    row("current-gone",8,new ConsumerGroupCurrentMemberAssignmentKey().setGroupId("g").setMemberId("m"),null,0);
    row("regex",16,new ConsumerGroupRegularExpressionKey().setGroupId("g").setRegularExpression("t.*"),new ConsumerGroupRegularExpressionValue().setTopics(List.of("t","t2")).setVersion(42).setTimestamp(1700000000000L),0);
    row("regex-gone",16,new ConsumerGroupRegularExpressionKey().setGroupId("g").setRegularExpression("t.*"),null,0);
  }
}
