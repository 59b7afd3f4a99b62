package org.apache.kafka.common.test.junit;

import kafka.server.ControllerServer;
import kafka.server.KafkaBroker;

import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.FeatureUpdate;
import org.apache.kafka.clients.admin.FinalizedVersionRange;
import org.apache.kafka.clients.admin.QuorumInfo;
import org.apache.kafka.clients.consumer.GroupProtocol;
import org.apache.kafka.common.network.ListenerName;
import org.apache.kafka.common.protocol.Errors;
import org.apache.kafka.common.requests.MetadataRequest;
import org.apache.kafka.common.requests.MetadataResponse;
import org.apache.kafka.common.security.auth.SecurityProtocol;
import org.apache.kafka.common.test.ClusterInstance;
import org.apache.kafka.common.test.api.ClusterConfig;
import org.apache.kafka.common.test.api.Type;
import org.apache.kafka.server.IntegrationTestUtils;
import org.apache.kafka.server.authorizer.Authorizer;
import org.apache.kafka.server.fault.FaultHandlerException;

import org.junit.jupiter.api.extension.AfterEachCallback;
import org.junit.jupiter.api.extension.AfterTestExecutionCallback;
import org.junit.jupiter.api.extension.BeforeEachCallback;
import org.junit.jupiter.api.extension.Extension;
import org.junit.jupiter.api.extension.ExtensionContext;
import org.junit.jupiter.api.extension.LifecycleMethodExecutionExceptionHandler;
import org.junit.jupiter.api.extension.TestExecutionExceptionHandler;
import org.junit.jupiter.api.extension.TestTemplateInvocationContext;
import org.opentest4j.TestAbortedException;

import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.function.Predicate;
import java.util.stream.Collectors;

/**
 * Stands before the class of this name in kafka-test-common-runtime: the cluster that an annotation asks for is rayft, in
 * processes of its own. What a test can only get from Kafka's objects in its own process makes it "not applicable": such
 * tests, and those with TLS, end as aborted, with the reason.
 */
public class RaftClusterInvocationContext implements TestTemplateInvocationContext {
    private static final Set<SecurityProtocol> SERVED = Set.of(SecurityProtocol.PLAINTEXT, SecurityProtocol.SASL_PLAINTEXT);
    /**
     * A client that was refused while a broker was away waits for up to reconnect.backoff.max.ms (1 s and a fifth) before it
     * tries again, and fails what is for that broker meanwhile. Tests of restarts ask what the broker says that is back.
     */
    private static final long RECONNECT_MS = 1_200;
    private final String baseDisplayName;
    private final ClusterConfig clusterConfig;
    private final boolean isCombined;

    public RaftClusterInvocationContext(String baseDisplayName, ClusterConfig clusterConfig, boolean isCombined) {
        this.baseDisplayName = baseDisplayName;
        this.clusterConfig = clusterConfig;
        this.isCombined = isCombined;
    }

    @Override
    public String getDisplayName(int invocationIndex) {
        return String.format("%s [%d] Type=Raft-%s, %s", baseDisplayName, invocationIndex, isCombined ? "Combined" : "Isolated", String.join(",", clusterConfig.displayTags()));
    }

    @Override
    public List<Extension> getAdditionalExtensions() {
        RaftClusterInstance cluster = new RaftClusterInstance(clusterConfig, isCombined);
        return List.of(
            (BeforeEachCallback) context -> {
                if (!SERVED.contains(clusterConfig.brokerSecurityProtocol()) || !SERVED.contains(clusterConfig.controllerSecurityProtocol()))
                    throw new TestAbortedException("not applicable: security protocol");
                cluster.name = context.getRequiredTestMethod().getName();
                cluster.format();
                if (clusterConfig.isAutoStart()) cluster.start();
            },
            (AfterTestExecutionCallback) context -> cluster.stop(),
            (AfterEachCallback) context -> cluster.stop(),
            new NotApplicable(cluster),
            new ClusterInstanceParameterResolver(cluster)
        );
    }

    /** However a test wraps the refusal of an in-process object, it ends as aborted. */
    private record NotApplicable(RaftClusterInstance cluster) implements TestExecutionExceptionHandler, LifecycleMethodExecutionExceptionHandler {
        @Override
        public void handleTestExecutionException(ExtensionContext context, Throwable t) throws Throwable {
            if (cluster.asked != null) throw new TestAbortedException("not applicable: needs " + cluster.asked, t);
            if (cluster.nodes != null && !cluster.nodes.dropped.isEmpty()) t.addSuppressed(new Exception("settings refused: " + cluster.nodes.dropped));
            throw t;
        }

        @Override
        public void handleBeforeEachMethodExecutionException(ExtensionContext context, Throwable t) throws Throwable {
            handleTestExecutionException(context, t);
        }

        @Override
        public void handleAfterEachMethodExecutionException(ExtensionContext context, Throwable t) throws Throwable {
            handleTestExecutionException(context, t);
        }
    }

    /** An Error, which the waiting loops of tests do not try again. */
    static class NeedsObject extends Error {
        NeedsObject(String what) {
            super("not applicable: needs " + what);
        }
    }

    static class RaftClusterInstance implements ClusterInstance {
        private final ClusterConfig config;
        private final boolean combined;
        private boolean started;
        private boolean stopped;
        String name = "";
        RayftNodes nodes;
        volatile String asked;

        RaftClusterInstance(ClusterConfig config, boolean combined) {
            this.config = config;
            this.combined = combined;
        }

        NeedsObject inProcess(String what) {
            asked = what;
            return new NeedsObject(what);
        }

        public void format() throws Exception {
            if (nodes != null) return;
            nodes = new RayftNodes(config, combined, name);
            nodes.format();
        }

        @Override
        public void start() {
            try {
                format();
                if (started) return;
                started = true;
                nodes.start();
                waitForReadyBrokers();
                finalizeFeatures();
            } catch (Exception e) {
                throw new RuntimeException("Failed to start Raft server", e);
            }
        }

        /** A new cluster begins at the latest level of each feature. Features that rayft does not have are left out. */
        private void finalizeFeatures() throws Exception {
            Map<String, FeatureUpdate> updates = new HashMap<>();
            try (Admin admin = admin()) {
                Map<String, FinalizedVersionRange> levels = config.features().isEmpty() ? Map.of() : admin.describeFeatures().featureMetadata().get().finalizedFeatures();
                config.features().forEach((feature, level) -> {
                    FinalizedVersionRange now = levels.get(feature.featureName());
                    if (now != null && now.maxVersionLevel() != level)
                        updates.put(feature.featureName(), new FeatureUpdate(level, FeatureUpdate.UpgradeType.SAFE_DOWNGRADE));
                });
                if (!updates.isEmpty()) admin.updateFeatures(updates).all().get();
            }
        }

        @Override
        public void stop() {
            if (stopped) return;
            stopped = true;
            try {
                if (nodes != null) nodes.kill();
            } catch (Exception e) {
                throw new RuntimeException(e);
            }
        }

        @Override
        public void waitForReadyBrokers() throws InterruptedException {
            await(60_000, "brokers did not become ready", () -> everywhere(null, m -> m.brokers().size() == aliveIds().size()));
        }

        @Override
        public void shutdownBroker(int brokerId) {
            known(brokerId);
            if (nodes.alsoController(brokerId)) throw inProcess("a broker stopped without its controller");
            try {
                nodes.terminate(brokerId);
            } catch (InterruptedException e) {
                throw new RuntimeException(e);
            }
        }

        @Override
        public void startBroker(int brokerId) {
            known(brokerId);
            try {
                nodes.spawn(List.of(brokerId));
                waitForReadyBrokers();
                Thread.sleep(RECONNECT_MS);
            } catch (Exception e) {
                throw new RuntimeException(e);
            }
        }

        private void known(int brokerId) {
            if (!nodes.brokers.containsKey(brokerId)) throw new IllegalArgumentException("Unknown brokerId " + brokerId);
        }

        private List<Integer> aliveIds() {
            return nodes.brokers.keySet().stream().filter(nodes::alive).toList();
        }

        MetadataResponse metadata(int broker, String topic) throws java.io.IOException {
            MetadataRequest request = new MetadataRequest.Builder(topic == null ? List.of() : List.of(topic), false).build((short) 12);
            return IntegrationTestUtils.connectAndReceive(request, nodes.outside.get(broker));
        }

        /** Whether every living broker answers Metadata (of this topic) as wanted. */
        private boolean everywhere(String topic, Predicate<MetadataResponse> wanted) throws Exception {
            for (int id : aliveIds()) {
                if (!wanted.test(metadata(id, topic))) return false;
            }
            return true;
        }

        private interface Condition {
            boolean met() throws Exception;
        }

        private static void await(long ms, String otherwise, Condition condition) throws InterruptedException {
            long until = System.currentTimeMillis() + ms;
            Throwable last = null;
            while (System.currentTimeMillis() < until) {
                try {
                    if (condition.met()) return;
                } catch (InterruptedException e) {
                    throw e;
                } catch (Exception e) {
                    last = e;
                }
                Thread.sleep(50);
            }
            throw new AssertionError(otherwise, last);
        }

        @Override
        public void waitTopicCreation(String topic, int partitions) throws InterruptedException {
            if (partitions <= 0) throw new IllegalArgumentException("Partition count must be > 0, but was " + partitions);
            await(60_000, topic + " metadata not propagated after 60000 ms", () -> everywhere(topic, m ->
                m.topicMetadata().stream().anyMatch(t -> t.error() == Errors.NONE && t.partitionMetadata().size() == partitions)));
        }

        @Override
        public void waitTopicDeletion(String topic) throws InterruptedException {
            await(60_000, topic + " metadata not propagated after 60000 ms", () -> everywhere(topic, m ->
                m.topicMetadata().stream().allMatch(t -> t.error() == Errors.UNKNOWN_TOPIC_OR_PARTITION)));
            await(60_000, "Failed to soft-delete the data to a delete directory", () -> !nodes.holds(topic));
        }

        @Override
        public void ensureConsistentMetadata() throws InterruptedException {
            try (Admin admin = admin()) {
                long end = admin.describeMetadataQuorum().quorumInfo().get().voters().stream().mapToLong(QuorumInfo.ReplicaState::logEndOffset).max().orElse(0);
                await(60_000, "Timeout waiting for controller metadata propagating to brokers", () ->
                    admin.describeMetadataQuorum().quorumInfo().get().observers().stream().filter(o -> aliveIds().contains(o.replicaId())).allMatch(o -> o.logEndOffset() >= end));
            } catch (java.util.concurrent.ExecutionException e) {
                throw new AssertionError(e);
            }
        }

        @Override
        public void ensureConsistentMetadata(Collection<KafkaBroker> brokers, Collection<ControllerServer> controllers) throws InterruptedException {
            ensureConsistentMetadata();
        }

        @Override
        public Set<GroupProtocol> supportedGroupProtocols() {
            try (Admin admin = admin()) {
                FinalizedVersionRange level = admin.describeFeatures().featureMetadata().get().finalizedFeatures().get("group.version");
                boolean asked = config.serverProperties().getOrDefault("group.coordinator.rebalance.protocols", "classic,consumer").contains("consumer");
                return level != null && level.maxVersionLevel() > 0 && asked ? Set.of(GroupProtocol.CLASSIC, GroupProtocol.CONSUMER) : Set.of(GroupProtocol.CLASSIC);
            } catch (Exception e) {
                throw new RuntimeException(e);
            }
        }

        @Override
        public Map<Integer, KafkaBroker> brokers() {
            return nodes.brokers.keySet().stream().collect(Collectors.toMap(id -> id, id -> RayftBroker.of(this, id)));
        }

        @Override
        public Map<Integer, KafkaBroker> aliveBrokers() {
            return aliveIds().stream().collect(Collectors.toMap(id -> id, id -> RayftBroker.of(this, id)));
        }

        @Override
        public Map<Integer, ControllerServer> controllers() {
            // this base class, and these tests, only wait for them
            boolean waits = StackWalker.getInstance().walk(f -> f.skip(1).limit(6).anyMatch(x ->
                (x.getClassName().equals("kafka.server.GroupCoordinatorBaseRequestTest") && x.getMethodName().startsWith("create"))
                    || x.getClassName().startsWith("kafka.server.ShareGroupHeartbeatRequestTest")
                    || x.getClassName().startsWith("kafka.server.StreamsGroupHeartbeatRequestTest")));
            if (waits) return Map.of();
            return nodes.controllers.keySet().stream().collect(Collectors.toMap(id -> id, id -> RayftBroker.controller(this, id)));
        }

        @Override
        public List<Authorizer> authorizers() {
            return aliveIds().stream().map(id -> RayftBroker.authorizer(this, id)).toList();
        }

        @Override
        public Set<Integer> brokerIds() {
            return nodes.brokers.keySet();
        }

        @Override
        public Set<Integer> controllerIds() {
            return nodes.controllers.keySet();
        }

        @Override
        public List<Integer> brokerBoundPorts() {
            return new ArrayList<>(nodes.brokers.values());
        }

        @Override
        public List<Integer> controllerBoundPorts() {
            return new ArrayList<>(nodes.controllers.values());
        }

        @Override
        public String bootstrapServers() {
            return addresses(nodes.brokers);
        }

        @Override
        public String bootstrapControllers() {
            return addresses(nodes.controllers);
        }

        private static String addresses(Map<Integer, Integer> ports) {
            return ports.values().stream().map(port -> "localhost:" + port).collect(Collectors.joining(","));
        }

        @Override
        public String clusterId() {
            return nodes.clusterId();
        }

        @Override
        public Type type() {
            return combined ? Type.CO_KRAFT : Type.KRAFT;
        }

        @Override
        public ClusterConfig config() {
            return config;
        }

        @Override
        public ListenerName clientListener() {
            return config.brokerListenerName();
        }

        @Override
        public ListenerName controllerListenerName() {
            return config.controllerListenerName();
        }

        @Override
        public Optional<FaultHandlerException> firstFatalException() {
            return Optional.empty();
        }

        @Override
        public Optional<FaultHandlerException> firstNonFatalException() {
            return Optional.empty();
        }

        @Override
        public boolean started() {
            return started;
        }

        @Override
        public boolean stopped() {
            return stopped;
        }
    }
}
