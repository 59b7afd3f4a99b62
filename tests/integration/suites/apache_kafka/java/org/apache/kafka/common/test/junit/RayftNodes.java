package org.apache.kafka.common.test.junit;

import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.security.auth.SecurityProtocol;
import org.apache.kafka.common.test.JaasUtils;
import org.apache.kafka.common.test.api.ClusterConfig;
import org.apache.kafka.common.utils.Utils;

import java.io.File;
import java.io.IOException;
import java.net.ServerSocket;
import java.net.Socket;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ThreadLocalRandom;
import java.util.concurrent.TimeUnit;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.stream.Stream;

/**
 * The processes of one rayft cluster, a `rayft node` each, with the ids that Kafka's test kit gives: brokers from 0,
 * controllers from 3000. A setting that rayft refuses is left out and written to dropped.log.
 */
class RayftNodes {
    private static final List<String> RAYFT = List.of(System.getProperty("rayft.command", "rayft").trim().split("\\s+"));
    private static final Path WORK = Path.of(System.getProperty("rayft.work", "work")).toAbsolutePath();
    private static final Pattern REFUSED = Pattern.compile("(?m)(?:^|rayft: |ERROR )([A-Za-z0-9_.-]+)(?:=\\S*)? (?:is not|does nothing|and )");
    private static final Map<String, Path> FORMATTED = new HashMap<>();
    private static final Map<Integer, Integer> CONTROLLER_PORTS = new HashMap<>();
    private static final Map<Integer, String> CONTROLLER_DIRS = new HashMap<>();
    private static final String CLUSTER_ID = Uuid.randomUuid().toString();
    private static final Set<Process> ALL = ConcurrentHashMap.newKeySet();
    private static int serial = 0;

    static {
        Runtime.getRuntime().addShutdownHook(new Thread(() -> ALL.forEach(Process::destroyForcibly)));
    }

    final Map<Integer, Integer> brokers = new TreeMap<>();      // id -> port
    final Map<Integer, Integer> outside = new TreeMap<>();      // id -> port without a login, where the others ask for one
    final Map<Integer, Integer> controllers = new TreeMap<>();
    final Map<Integer, Process> running = new TreeMap<>();      // by the key of a process: its broker's id, else its controller's
    final Set<String> dropped = new TreeSet<>();
    private final Map<Integer, Map<String, String>> settings = new TreeMap<>();
    private final ClusterConfig config;
    private final boolean combined;
    final Path dir;

    RayftNodes(ClusterConfig config, boolean combined, String name) {
        this.config = config;
        this.combined = combined;
        this.dir = WORK.resolve(String.format("%03d-%s", ++serial, name.replaceAll("[^A-Za-z0-9]+", "-").replaceAll("(.{80}).*", "$1")));
        for (int i = 0; i < config.numControllers(); i++) controllers.put(3000 + i, CONTROLLER_PORTS.computeIfAbsent(i, x -> freePort()));
        for (int i = 0; i < config.numBrokers(); i++) brokers.put(i, freePort());
        for (int i = 0; i < config.numBrokers(); i++) outside.put(i, logins() ? freePort() : brokers.get(i));
    }

    /** Whether the brokers or the controllers ask everybody who they are (SASL_PLAINTEXT). */
    private boolean logins() {
        return config.brokerSecurityProtocol() == SecurityProtocol.SASL_PLAINTEXT || config.controllerSecurityProtocol() == SecurityProtocol.SASL_PLAINTEXT;
    }

    String clusterId() {
        return CLUSTER_ID;
    }

    boolean alsoController(int broker) {
        return combined && broker < config.numControllers();
    }

    void format() throws Exception {
        Files.createDirectories(dir);
        for (int i = 0; i < config.numBrokers(); i++) configure(i, i, combined && i < config.numControllers() ? 3000 + i : -1);
        for (int i = combined ? config.numBrokers() : 0; i < config.numControllers(); i++) configure(3000 + i, -1, 3000 + i);
    }

    void start() throws Exception {
        spawn(settings.keySet());
    }

    private void configure(int key, int broker, int controller) throws Exception {
        Map<String, String> s = new TreeMap<>();
        List<String> listeners = new ArrayList<>();
        String external = config.brokerListenerName().value();
        String internal = config.controllerListenerName().value();
        if (broker >= 0) {
            s.put("broker.id", "" + broker);
            s.put("inter.broker.listener.name", external);
            listeners.add(external + "://localhost:" + brokers.get(broker));
        }
        if (controller >= 0) {
            s.put("controller.id", "" + controller);
            listeners.add(internal + "://localhost:" + controllers.get(controller));
        }
        s.put("process.roles", broker < 0 ? "controller" : controller < 0 ? "broker" : "broker,controller");
        s.put("controller.listener.names", internal);
        String protocols = external + ":" + config.brokerSecurityProtocol() + "," + internal + ":" + config.controllerSecurityProtocol();
        if (logins()) protocols = askWho(s, listeners, broker, protocols);
        s.put("listeners", String.join(",", listeners));
        s.put("listener.security.protocol.map", protocols);
        if (broker >= 0 && config.serverProperties().containsKey("metric.reporters"))
            s.put("rayft.metrics.listen", "localhost:" + freePort());      // it receives clients' metrics, as a reporter would
        List<String> connect = new ArrayList<>();
        controllers.forEach((id, port) -> connect.add(id + "@localhost:" + port));
        s.put("controller.connect", String.join(",", connect));
        List<String> dirs = new ArrayList<>();
        for (int i = 0; i < (broker < 0 ? 1 : config.numDisksPerBroker()); i++) dirs.add(dir.resolve(key + "-disk" + i).toString());
        s.put("log.dirs", String.join(",", dirs));
        settings.put(key, s);
        copyFormatted(key, controller, dirs);
        s.putAll(config.serverProperties());
        s.putAll(config.perServerOverrideProperties().getOrDefault(key, Map.of()));
        s.keySet().removeIf(name -> name.contains(" "));     // a sentence for a name: Kafka takes it for an unknown setting
    }

    /** What Kafka's kit sets for SASL_PLAINTEXT, and one more listener of brokers, for the harness. Returns the listeners' protocols. */
    private String askWho(Map<String, String> s, List<String> listeners, int broker, String protocols) {
        String users = String.format("org.apache.kafka.common.security.plain.PlainLoginModule required username=\"%1$s\" password=\"%2$s\" " +
            "user_%1$s=\"%2$s\" user_%3$s=\"%4$s\";", JaasUtils.KAFKA_PLAIN_ADMIN, JaasUtils.KAFKA_PLAIN_ADMIN_PASSWORD,
            JaasUtils.KAFKA_PLAIN_USER1, JaasUtils.KAFKA_PLAIN_USER1_PASSWORD);
        for (String listener : List.of(config.brokerListenerName().value(), config.controllerListenerName().value()))
            if (protocols.contains(listener + ":SASL_PLAINTEXT")) s.put("listener.name." + listener.toLowerCase(Locale.ROOT) + ".plain.sasl.jaas.config", users);
        s.put("sasl.enabled.mechanisms", "PLAIN");
        s.put("sasl.mechanism.inter.broker.protocol", "PLAIN");
        s.put("sasl.mechanism.controller.protocol", "PLAIN");
        s.put("authorizer.class.name", "org.apache.kafka.metadata.authorizer.StandardAuthorizer");
        s.put("super.users", "User:" + JaasUtils.KAFKA_PLAIN_ADMIN + ";User:ANONYMOUS");
        if (broker < 0) return protocols;
        listeners.add("OUTSIDE://localhost:" + outside.get(broker));
        return protocols + ",OUTSIDE:PLAINTEXT";
    }

    /** `rayft format`, once for each shape of a node; its directories are copied for every test. */
    private void copyFormatted(int key, int controller, List<String> dirs) throws Exception {
        String shape = key + "-" + combined + "-" + logins() + "-" + config.numControllers() + "-" + dirs.size();
        if (!FORMATTED.containsKey(shape)) {
            Path template = WORK.resolve("formatted-" + shape);
            Map<String, String> s = new TreeMap<>(settings.get(key));
            List<String> there = new ArrayList<>();
            for (int i = 0; i < dirs.size(); i++) there.add(template.resolve("" + i).toString());
            s.put("log.dirs", String.join(",", there));
            Files.createDirectories(template);
            Path file = template.resolve("node.properties");
            write(file, s);
            List<String> command = new ArrayList<>(RAYFT);
            command.addAll(List.of("format", "--config", file.toString(), "--cluster-id", CLUSTER_ID));
            if (controller >= 0) {
                List<String> voters = new ArrayList<>();
                controllers.forEach((id, port) -> voters.add(id + "@localhost:" + port + ":" +
                    CONTROLLER_DIRS.computeIfAbsent(id, x -> Uuid.randomUuid().toString())));
                command.addAll(List.of("--initial-controllers", String.join(",", voters)));
            }
            Path log = template.resolve("format.log");
            if (new ProcessBuilder(command).redirectErrorStream(true).redirectOutput(log.toFile()).start().waitFor() != 0)
                throw new IOException("rayft format: " + Files.readString(log));
            FORMATTED.put(shape, template);
        }
        for (int i = 0; i < dirs.size(); i++) {
            Path from = FORMATTED.get(shape).resolve("" + i);
            Path to = Path.of(dirs.get(i));
            try (Stream<Path> files = Files.walk(from)) {
                for (Path f : (Iterable<Path>) files::iterator) Files.copy(f, to.resolve(from.relativize(f).toString()));
            }
        }
    }

    /** Starts these nodes together and waits until they listen. */
    void spawn(Iterable<Integer> keys) throws Exception {
        for (int key : keys) launch(key);
        long until = System.currentTimeMillis() + 60_000;
        for (int key : keys) {
            int port = brokers.getOrDefault(key, controllers.getOrDefault(key, 0));
            while (System.currentTimeMillis() < until && !listens(port)) {
                for (int each : keys) {
                    if (running.get(each).isAlive()) continue;
                    leaveOut(each);
                    launch(each);
                }
                Thread.sleep(20);
            }
        }
    }

    private void launch(int key) throws IOException {
        Path file = dir.resolve(key + ".properties");
        write(file, settings.get(key));
        List<String> command = new ArrayList<>(RAYFT);
        command.addAll(List.of("node", "--config", file.toString()));
        Process p = new ProcessBuilder(command).redirectErrorStream(true)
            .redirectOutput(ProcessBuilder.Redirect.appendTo(dir.resolve(key + ".log").toFile())).start();
        ALL.add(p);
        running.put(key, p);
    }

    /** The node refused a setting of the annotation: the next start goes without. */
    private void leaveOut(int key) throws IOException {
        List<String> log = Files.readAllLines(dir.resolve(key + ".log"));
        String said = log.isEmpty() ? "" : log.get(log.size() - 1);
        Matcher m = REFUSED.matcher(said);
        if (running.get(key).exitValue() != 3 || !m.find() || settings.get(key).remove(m.group(1)) == null)
            throw new IOException("rayft node " + key + " ended with " + running.get(key).exitValue() + ": " + said);
        if (dropped.add(m.group(1))) append("dropped.log", dir.getFileName() + " " + said + "\n");
    }

    String directories(int key) {
        return settings.get(key).get("log.dirs");
    }

    boolean alive(int broker) {
        Process p = running.get(broker);
        return p != null && p.isAlive();
    }

    void terminate(int key) throws InterruptedException {
        Process p = running.get(key);
        p.destroy();
        if (!p.waitFor(60, TimeUnit.SECONDS)) p.destroyForcibly().waitFor();
        ALL.remove(p);
    }

    void kill() throws Exception {
        for (Map.Entry<Integer, Process> e : running.entrySet()) {
            if (!e.getValue().isAlive() && e.getValue().exitValue() != 0)
                append("errors.log", dir.getFileName() + " node " + e.getKey() + " had ended with " + e.getValue().exitValue() + "\n");
            e.getValue().destroyForcibly();
        }
        for (Process p : running.values()) {
            p.waitFor();
            ALL.remove(p);
        }
        if (!Files.exists(dir)) return;
        for (File f : dir.toFile().listFiles()) {
            if (f.isDirectory()) Utils.delete(f);
            else if (f.getName().endsWith(".log"))
                for (String line : Files.readAllLines(f.toPath()))
                    if (line.contains(" ERROR ") || line.contains("Traceback")) append("errors.log", dir.getFileName() + "/" + f.getName() + " " + line + "\n");
        }
    }

    boolean holds(String topic) {
        Pattern name = Pattern.compile(Pattern.quote(topic) + "-\\d+");
        for (int broker : brokers.keySet())
            for (int i = 0; i < config.numDisksPerBroker(); i++) {
                String[] names = dir.resolve(broker + "-disk" + i).toFile().list();
                if (names != null) for (String n : names) if (name.matcher(n).matches()) return true;
            }
        return false;
    }

    private static boolean listens(int port) {
        try {
            new Socket("localhost", port).close();
            return true;
        } catch (IOException e) {
            return false;
        }
    }

    /** Below the ports of outgoing connections, one of which might take it while its node is not there. */
    private static int freePort() {
        while (true) {
            int port = ThreadLocalRandom.current().nextInt(10_000, 32_000);
            try (ServerSocket s = new ServerSocket(port, 1, java.net.InetAddress.getLoopbackAddress())) {
                return s.getLocalPort();
            } catch (IOException taken) {
                // another one, then
            }
        }
    }

    private static void write(Path file, Map<String, String> settings) throws IOException {
        StringBuilder text = new StringBuilder();
        settings.forEach((k, v) -> text.append(k).append('=').append(v).append('\n'));
        Files.writeString(file, text);
    }

    private static void append(String file, String text) throws IOException {
        Files.writeString(WORK.resolve(file), text, StandardOpenOption.CREATE, StandardOpenOption.APPEND);
    }
}
