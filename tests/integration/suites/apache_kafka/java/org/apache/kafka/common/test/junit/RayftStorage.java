package org.apache.kafka.common.test.junit;

import kafka.cluster.Partition;
import kafka.log.LogManager;
import kafka.server.ReplicaManager;

import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.Config;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.OffsetSpec;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.storage.internals.checkpoint.PartitionMetadataFile;
import org.apache.kafka.storage.internals.log.LogConfig;
import org.apache.kafka.storage.internals.log.LogSegment;
import org.apache.kafka.storage.internals.log.ProducerStateManagerConfig;
import org.apache.kafka.storage.internals.log.UnifiedLog;

import org.mockito.Mockito;
import org.mockito.stubbing.Answer;

import java.io.File;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.stream.Collectors;

import scala.Option;
import scala.jdk.javaapi.CollectionConverters;

/** A broker's replicas, as its directories, Metadata, ListOffsets and DescribeConfigs tell of them. */
class RayftStorage {
    private static final Set<ConfigEntry.ConfigSource> DYNAMIC =
        Set.of(ConfigEntry.ConfigSource.DYNAMIC_BROKER_CONFIG, ConfigEntry.ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG);
    private final RaftClusterInvocationContext.RaftClusterInstance cluster;
    private final int id;

    RayftStorage(RaftClusterInvocationContext.RaftClusterInstance cluster, int id) {
        this.cluster = cluster;
        this.id = id;
    }

    ReplicaManager replicaManager() {
        return answering(ReplicaManager.class, (name, args) -> switch (name) {
            case "onlinePartition" -> directory((TopicPartition) args[0]).map(d -> partition((TopicPartition) args[0]));
            case "localLog" -> log((TopicPartition) args[0]);
            case "logManager" -> logManager();
            case "metadataCache" -> RayftBroker.of(cluster, id).metadataCache();
            default -> null;
        });
    }

    LogManager logManager() {
        return answering(LogManager.class, (name, args) -> switch (name) {
            case "getLog" -> log((TopicPartition) args[0]);
            case "getLog$default$2" -> false;
            case "liveLogDirs" -> CollectionConverters.asScala(directories()).toSeq();
            case "initialDefaultConfig" -> new LogConfig(Map.of("min.insync.replicas", setting("min.insync.replicas")));
            case "producerStateManagerConfig" -> new ProducerStateManagerConfig(Integer.parseInt(setting("producer.id.expiration.ms")), true);
            default -> null;
        });
    }

    private Partition partition(TopicPartition tp) {
        return answering(Partition.class, (name, args) -> {
            if (!name.equals("leaderIdIfLocal")) return null;
            Integer leader = cluster.metadata(id, tp.topic()).topicMetadata().stream().flatMap(t -> t.partitionMetadata().stream())
                .filter(p -> p.partition() == tp.partition()).findFirst().flatMap(p -> p.leaderId).orElse(-1);
            return Optional.of(leader).filter(l -> l == id);
        });
    }

    private Optional<UnifiedLog> log(TopicPartition tp) throws Exception {
        return directory(tp).map(directory -> answering(UnifiedLog.class, (name, args) -> switch (name) {
            case "dir" -> directory;
            case "highWatermark" -> highWatermark(tp);
            case "partitionMetadataFile" -> Optional.of(new PartitionMetadataFile(new File(directory, "partition.metadata"), null));
            case "activeSegment" -> segment(directory);
            default -> null;
        }));
    }

    private LogSegment segment(File directory) throws Exception {
        String last = Arrays.stream(directory.list()).filter(n -> n.endsWith(".log")).max(String::compareTo).orElseThrow();
        return LogSegment.open(directory, Long.parseLong(last.replace(".log", "")), new LogConfig(Map.of()),
            org.apache.kafka.common.utils.Time.SYSTEM, true, 0, false, "");
    }

    private long highWatermark(TopicPartition tp) throws Exception {
        try (Admin admin = cluster.admin()) {
            return admin.listOffsets(Map.of(tp, OffsetSpec.latest())).partitionResult(tp).get().offset();
        }
    }

    /** What was set while the broker runs. */
    Map<String, String> dynamicSettings() throws Exception {
        return settings().entries().stream().filter(e -> DYNAMIC.contains(e.source()) && e.value() != null)
            .collect(Collectors.toMap(ConfigEntry::name, ConfigEntry::value));
    }

    private String setting(String name) throws Exception {
        return settings().get(name).value();
    }

    private Config settings() throws Exception {
        ConfigResource broker = new ConfigResource(ConfigResource.Type.BROKER, "" + id);
        try (Admin admin = cluster.admin()) {
            return admin.describeConfigs(List.of(broker)).all().get().get(broker);
        }
    }

    private List<File> directories() {
        return Arrays.stream(cluster.nodes.directories(id).split(",")).map(File::new).toList();
    }

    /** Where a replica is. An empty one may have no directory yet, so a broker that runs is asked. */
    private Optional<File> directory(TopicPartition tp) throws Exception {
        if (!cluster.nodes.alive(id)) return directories().stream().map(d -> new File(d, tp.toString())).filter(File::isDirectory).findFirst();
        try (Admin admin = cluster.admin()) {
            return admin.describeLogDirs(List.of(id)).allDescriptions().get().get(id).entrySet().stream()
                .filter(d -> d.getValue().replicaInfos().containsKey(tp)).map(d -> new File(d.getKey(), tp.toString())).findFirst();
        }
    }

    private interface Answers {
        Object of(String method, Object[] arguments) throws Exception;
    }

    /** An object of a class of Kafka's broker. What `answers` has no answer to needs Kafka's own object. */
    private <T> T answering(Class<T> type, Answers answers) {
        Answer<Object> answer = call -> {
            String name = call.getMethod().getName();
            if (name.equals("toString")) return type.getSimpleName();
            Object found = answers.of(name, call.getArguments());
            if (found == null) throw cluster.inProcess(type.getSimpleName() + "." + name + "()");
            boolean scala = call.getMethod().getReturnType() == Option.class;
            return scala && found instanceof Optional<?> optional ? Option.apply(optional.orElse(null)) : found;
        };
        return Mockito.mock(type, answer);
    }
}
