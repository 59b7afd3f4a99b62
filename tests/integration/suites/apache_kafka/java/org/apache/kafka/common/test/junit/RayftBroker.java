package org.apache.kafka.common.test.junit;

import kafka.network.SocketServer;
import kafka.server.ControllerServer;
import kafka.server.KafkaBroker;
import kafka.server.KafkaConfig;

import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.ListTopicsOptions;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.acl.AclBindingFilter;
import org.apache.kafka.common.protocol.Errors;
import org.apache.kafka.common.requests.MetadataResponse;
import org.apache.kafka.controller.Controller;
import org.apache.kafka.coordinator.group.GroupCoordinator;
import org.apache.kafka.metadata.BrokerState;
import org.apache.kafka.metadata.LeaderAndIsr;
import org.apache.kafka.metadata.LeaderRecoveryState;
import org.apache.kafka.metadata.MetadataCache;
import org.apache.kafka.server.authorizer.Authorizer;

import org.mockito.Mockito;

import java.lang.reflect.InvocationHandler;
import java.lang.reflect.Method;
import java.lang.reflect.Proxy;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Properties;
import java.util.concurrent.CompletableFuture;

/** What Kafka's objects in the test's process can tell from outside: start, stop, port, configuration, metadata. */
class RayftBroker {
    private final RaftClusterInvocationContext.RaftClusterInstance cluster;
    private final int id;

    private RayftBroker(RaftClusterInvocationContext.RaftClusterInstance cluster, int id) {
        this.cluster = cluster;
        this.id = id;
    }

    static KafkaBroker of(RaftClusterInvocationContext.RaftClusterInstance cluster, int id) {
        RayftBroker self = new RayftBroker(cluster, id);
        return proxy(KafkaBroker.class, self::broker);
    }

    /** A controller, of which only its configuration, its port and the topics' ids can be told. */
    static ControllerServer controller(RaftClusterInvocationContext.RaftClusterInstance cluster, int id) {
        RayftBroker self = new RayftBroker(cluster, id);
        return Mockito.mock(ControllerServer.class, call -> switch (call.getMethod().getName()) {
            case "config" -> self.config("controller");
            case "socketServer" -> self.socketServer(cluster.nodes.controllers.get(id));
            case "controller" -> proxy(Controller.class, self::topicIds);
            case "toString" -> "ControllerServer";
            default -> throw cluster.inProcess("ControllerServer." + call.getMethod().getName() + "()");
        });
    }

    /** The ids of all topics, as a broker lists them. */
    private Object topicIds(Object proxy, Method method, Object[] args) throws Exception {
        if (!method.getName().equals("findAllTopicIds")) throw cluster.inProcess("Controller." + method.getName() + "()");
        try (Admin admin = cluster.admin()) {
            Map<String, Uuid> ids = new HashMap<>();
            admin.listTopics(new ListTopicsOptions().listInternal(true)).listings().get().forEach(one -> ids.put(one.name(), one.topicId()));
            return CompletableFuture.completedFuture(ids);
        }
    }

    /** The access rules of a broker, as it describes them. */
    static Authorizer authorizer(RaftClusterInvocationContext.RaftClusterInstance cluster, int id) {
        return proxy(Authorizer.class, (p, method, args) -> {
            if (!method.getName().equals("acls")) throw cluster.inProcess("Authorizer." + method.getName() + "()");
            String address = "localhost:" + cluster.nodes.outside.get(id);
            try (Admin admin = Admin.create(Map.of("bootstrap.servers", address))) {
                return admin.describeAcls((AclBindingFilter) args[0]).values().get();
            }
        });
    }

    private SocketServer socketServer(int port) {
        return Mockito.mock(SocketServer.class, call -> {
            if (call.getMethod().getName().equals("boundPort")) return port;
            throw cluster.inProcess("SocketServer." + call.getMethod().getName() + "()");
        });
    }

    @SuppressWarnings("unchecked")
    private static <T> T proxy(Class<T> type, InvocationHandler handler) {
        return (T) Proxy.newProxyInstance(type.getClassLoader(), new Class<?>[] {type}, (p, method, args) ->
            switch (method.getName()) {
                case "hashCode" -> System.identityHashCode(p);
                case "equals" -> p == args[0];
                case "toString" -> type.getSimpleName();
                default -> handler.invoke(p, method, args);
            });
    }

    private Object broker(Object proxy, Method method, Object[] args) throws Exception {
        switch (method.getName()) {
            case "config": return config("broker");
            case "clusterId": return cluster.clusterId();
            case "isShutdown": return !cluster.nodes.alive(id);
            case "brokerState": return cluster.nodes.alive(id) ? BrokerState.RUNNING : BrokerState.SHUTTING_DOWN;
            case "boundPort": return cluster.nodes.brokers.get(id);
            case "startup": if (!cluster.nodes.alive(id)) cluster.startBroker(id); return null;
            case "shutdown": if (cluster.nodes.alive(id)) cluster.shutdownBroker(id); return null;
            case "awaitShutdown": return null;
            case "metadataCache": return proxy(MetadataCache.class, this::metadata);
            case "replicaManager": return new RayftStorage(cluster, id).replicaManager();
            case "logManager": return new RayftStorage(cluster, id).logManager();
            case "groupCoordinator": return proxy(GroupCoordinator.class, this::coordinator);
            case "socketServer": return socketServer(cluster.nodes.brokers.get(id));
            default: throw cluster.inProcess("KafkaBroker." + method.getName() + "()");
        }
    }

    private KafkaConfig config(String role) throws Exception {
        Map<String, Object> s = new HashMap<>();
        String external = cluster.config().brokerListenerName().value();
        String internal = cluster.config().controllerListenerName().value();
        s.put("process.roles", role);
        s.put("node.id", "" + id);
        boolean broker = role.equals("broker");
        s.put("listeners", broker ? external + "://localhost:" + cluster.nodes.brokers.get(id) : internal + "://localhost:" + cluster.nodes.controllers.get(id));
        if (broker) s.put("inter.broker.listener.name", external);
        s.put("controller.listener.names", internal);
        s.put("listener.security.protocol.map", external + ":" + cluster.config().brokerSecurityProtocol() + "," + internal + ":" + cluster.config().controllerSecurityProtocol());
        s.put("controller.quorum.bootstrap.servers", cluster.bootstrapControllers());
        if (broker) s.put("log.dirs", cluster.nodes.directories(id));
        s.put("unstable.api.versions.enable", "false");
        s.putAll(cluster.config().serverProperties());
        s.putAll(cluster.config().perServerOverrideProperties().getOrDefault(id, Map.of()));
        if (broker && cluster.nodes.alive(id)) s.putAll(new RayftStorage(cluster, id).dynamicSettings());
        return new KafkaConfig(s, false);
    }

    private Object coordinator(Object proxy, Method method, Object[] args) throws Exception {
        if (!method.getName().equals("groupMetadataTopicConfigs")) throw cluster.inProcess("GroupCoordinator." + method.getName() + "()");
        Properties p = new Properties();
        p.put("cleanup.policy", "compact");
        p.put("compression.type", "producer");
        p.put("segment.bytes", "" + config("broker").getInt("offsets.topic.segment.bytes"));
        return p;
    }

    private Object metadata(Object proxy, Method method, Object[] args) throws Exception {
        String name = method.getName();
        if (name.equals("hasAliveBroker")) return cluster.metadata(id, null).brokers().stream().anyMatch(n -> n.id() == (Integer) args[0]);
        if (name.equals("getAliveBrokerNodes")) return List.copyOf(cluster.metadata(id, null).brokers());
        if (args == null || !(args[0] instanceof String topic)) throw cluster.inProcess("MetadataCache." + name + "()");
        Optional<MetadataResponse.TopicMetadata> found = cluster.metadata(id, topic).topicMetadata().stream()
            .filter(t -> t.error() != Errors.UNKNOWN_TOPIC_OR_PARTITION && !t.partitionMetadata().isEmpty()).findFirst();
        switch (name) {
            case "numPartitions": return found.map(t -> t.partitionMetadata().size());
            case "contains": return found.isPresent();
            case "getTopicId": return found.map(MetadataResponse.TopicMetadata::topicId).orElse(Uuid.ZERO_UUID);
            case "getLeaderAndIsr": return found.flatMap(t -> t.partitionMetadata().stream().filter(p -> p.partition() == (Integer) args[1]).findFirst())
                .map(p -> new LeaderAndIsr(p.leaderId.orElse(-1), p.leaderEpoch.orElse(-1), p.inSyncReplicaIds, LeaderRecoveryState.RECOVERED, 0));
            default: throw cluster.inProcess("MetadataCache." + name + "()");
        }
    }
}
