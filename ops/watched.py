"""What is watched: the panels of the dashboards and the alert rules, as one list.

`python -m ops.make` makes the files in `ops/grafana` and `ops/prometheus` of it. A name here is one that nodes show
(`docs/metrics.md`); tests hold that.
"""

from typing import NamedTuple

JOB = 'job=~"$job"'
ON = 'job=~"$job",instance=~"$instance"'
IN_RULES = 'job="rayft"'
"""The job of the nodes in `ops/prometheus/prometheus.yml`."""
OF_GROUPS = 'job="rayft-groups"'
"""The job of `rayft metrics` there."""


class Panel(NamedTuple):
    """A drawing. `queries`: (expression, legend); `unit`: Grafana's; `kind`: timeseries, stat or table."""

    title: str
    queries: tuple[tuple[str, str], ...]
    unit: str = "short"
    kind: str = "timeseries"
    about: str = ""


class Dashboard(NamedTuple):
    """A page of panels. `uid` is also its file's name."""

    uid: str
    title: str
    panels: tuple[Panel, ...]


class Alert(NamedTuple):
    """An alert rule. `lasts`: for how long the expression must hold; `says`: one sentence; `then`: what to do."""

    name: str
    expr: str
    lasts: str
    severity: str
    says: str
    then: str


def rate(name: str, by: str = "", where: str = ON) -> str:
    """Events a second, summed up."""
    return f"sum{f' by ({by})' if by else ''} (rate({name}{{{where}}}[$__rate_interval]))"


BROKERS = "kafka_server_brokertopicmetrics_"
MANAGER = "kafka_server_replicamanager_"
CONTROLLER = "kafka_controller_kafkacontroller_"
REQUESTS = "kafka_network_requestmetrics_"
RAFT = "kafka_server_raftmetrics_"
SOCKETS = "kafka_server_socket_server_metrics_"
GROUPS = "kafka_server_group_coordinator_metrics_"

DASHBOARDS = (
    Dashboard(
        "rayft-brokers",
        "rayft: brokers",
        (
            Panel("Nodes that answer", ((f"sum(up{{{JOB}}})", ""),), kind="stat"),
            Panel("Brokers not fenced", ((f"max({CONTROLLER}activebrokercount{{{JOB}}})", ""),), kind="stat"),
            Panel("Partitions", ((f"max({CONTROLLER}globalpartitioncount{{{JOB}}})", ""),), kind="stat"),
            Panel(
                "Partitions without a leader", ((f"max({CONTROLLER}offlinepartitionscount{{{JOB}}})", ""),), kind="stat"
            ),
            Panel(
                "Under-replicated partitions", ((f"sum({MANAGER}underreplicatedpartitions{{{ON}}})", ""),), kind="stat"
            ),
            Panel(
                "Under min.insync.replicas", ((f"sum({MANAGER}underminisrpartitioncount{{{ON}}})", ""),), kind="stat"
            ),
            Panel(
                "Records in",
                ((rate(f"{BROKERS}messagesin_total", "topic", ON + ',topic!=""'), "{{topic}}"),),
                "cps",
            ),
            Panel("Bytes in", ((rate(f"{BROKERS}bytesin_total", "topic", ON + ',topic!=""'), "{{topic}}"),), "Bps"),
            Panel("Bytes out", ((rate(f"{BROKERS}bytesout_total", "topic", ON + ',topic!=""'), "{{topic}}"),), "Bps"),
            Panel(
                "Bytes between brokers",
                (
                    (rate(f"{BROKERS}replicationbytesin_total", "instance"), "in {{instance}}"),
                    (rate(f"{BROKERS}replicationbytesout_total", "instance"), "out {{instance}}"),
                ),
                "Bps",
            ),
            Panel("Requests", ((rate(f"{REQUESTS}requests_total", "request"), "{{request}}"),), "reqps"),
            Panel(
                "Errors answered",
                ((rate(f"{REQUESTS}errors_total", "request,error", ON + ',error!="NONE"'), "{{request}} {{error}}"),),
                "cps",
            ),
            Panel(
                "Time of requests, 99th percentile",
                (
                    (
                        f'max by (request) ({REQUESTS}totaltimems{{{ON},quantile="0.99",'
                        f'request=~"Produce|FetchConsumer|FetchFollower|Metadata|OffsetCommit"}})',
                        "{{request}}",
                    ),
                ),
                "ms",
            ),
            Panel(
                "Where the time of Produce goes",
                tuple(
                    (
                        f'sum(rate({REQUESTS}{part}timems_sum{{{ON},request="Produce"}}[$__rate_interval])) / '
                        f'sum(rate({REQUESTS}{part}timems_count{{{ON},request="Produce"}}[$__rate_interval]))',
                        label,
                    )
                    for part, label in (
                        ("requestqueue", "queue"),
                        ("local", "local"),
                        ("remote", "remote"),
                        ("responsequeue", "behind answers"),
                        ("responsesend", "send"),
                    )
                ),
                "ms",
            ),
            Panel(
                "Waiting requests",
                (
                    (
                        f"sum by (delayedOperation) (kafka_server_delayedoperationpurgatory_purgatorysize{{{ON}}}) > 0",
                        "{{delayedOperation}}",
                    ),
                ),
            ),
            Panel(
                "The thread's idle share",
                (
                    (
                        f"kafka_server_kafkarequesthandlerpool_requesthandleravgidle_percent{{{ON}}}",
                        "{{instance}}",
                    ),
                ),
                "percentunit",
            ),
            Panel("Connections", ((f"sum by (listener) ({SOCKETS}connection_count{{{ON}}})", "{{listener}}"),)),
            Panel(
                "CPU", ((f"rate(process_cpu_seconds_total{{{ON}}}[$__rate_interval])", "{{instance}}"),), "percentunit"
            ),
            Panel("Memory", ((f"process_resident_memory_bytes{{{ON}}}", "{{instance}}"),), "bytes"),
            Panel("Open files", ((f"process_open_fds{{{ON}}}", "{{instance}}"),)),
            Panel("Size of logs", ((f"sum by (instance) (kafka_log_log_size{{{ON}}})", "{{instance}}"),), "bytes"),
            Panel(
                "Flushes, 99th percentile",
                ((f'kafka_log_logflushstats_logflushrateandtimems{{{ON},quantile="0.99"}}', "{{instance}}"),),
                "ms",
            ),
        ),
    ),
    Dashboard(
        "rayft-quorum",
        "rayft: quorum and controllers",
        (
            Panel("Active controllers", ((f"sum({CONTROLLER}activecontrollercount{{{JOB}}})", ""),), kind="stat"),
            Panel("Leader of the quorum", ((f"max({RAFT}current_leader{{{JOB}}})", ""),), kind="stat"),
            Panel("Epoch", ((f"max({RAFT}current_epoch{{{JOB}}})", ""),), kind="stat"),
            Panel("Voters", ((f"max({RAFT}number_of_voters{{{JOB}}})", ""),), kind="stat"),
            Panel("Voters that have caught up", ((f"max(rayft_quorum_voters_caught_up{{{JOB}}})", ""),), kind="stat"),
            Panel("Fenced brokers", ((f"max({CONTROLLER}fencedbrokercount{{{JOB}}})", ""),), kind="stat"),
            Panel("Roles", ((f"{RAFT}current_state{{{ON}}}", "{{instance}} {{current_state}}"),), kind="table"),
            Panel("Ends of the metadata log", ((f"{RAFT}log_end_offset{{{ON}}}", "{{instance}}"),)),
            Panel(
                "Behind the high watermark",
                (
                    (f"{CONTROLLER}metadatalag{{{ON}}}", "controller {{instance}}"),
                    (f"kafka_controller_kafkaserver_metadatalag{{{ON}}}", "broker {{instance}}"),
                ),
            ),
            Panel(
                "Metadata records appended",
                ((f"{RAFT}append_records_rate{{{ON}}}", "{{instance}}"),),
                "cps",
            ),
            Panel(
                "From append to commit",
                (
                    (f"{RAFT}commit_latency_avg{{{JOB}}}", "average"),
                    (f"{RAFT}commit_latency_max{{{JOB}}}", "longest"),
                ),
                "ms",
            ),
            Panel(
                "Longest time without a leader since the start",
                ((f"{RAFT}election_latency_max{{{ON}}}", "{{instance}}"),),
                "ms",
            ),
            Panel(
                "Elections of partition leaders",
                (
                    (
                        f"sum(rate(kafka_controller_controllerstats_leaderelectionrateandtimems_count{{{JOB}}}[$__rate_interval]))",
                        "all",
                    ),
                    (
                        f"sum(rate(kafka_controller_controllerstats_uncleanleaderelections_total{{{JOB}}}[$__rate_interval]))",
                        "unclean",
                    ),
                ),
                "cps",
            ),
            Panel(
                "Partitions not led by their first replica",
                ((f"max({CONTROLLER}preferredreplicaimbalancecount{{{JOB}}})", ""),),
            ),
            Panel(
                "Bytes among controllers",
                (
                    (rate("kafka_server_raftchannelmetrics_incoming_byte_total", "instance"), "in {{instance}}"),
                    (rate("kafka_server_raftchannelmetrics_outgoing_byte_total", "instance"), "out {{instance}}"),
                ),
                "Bps",
            ),
            Panel("Snapshot lag", ((f"{CONTROLLER}metadatasnapshotlag{{{ON}}}", "{{instance}}"),)),
        ),
    ),
    Dashboard(
        "rayft-groups",
        "rayft: groups and transactions",
        (
            Panel(
                "Behind, by group",
                (('sum by (consumergroup) (kafka_consumergroup_lag{job=~".*groups"})', "{{consumergroup}}"),),
                about="Records that groups have not read yet, as rayft metrics --listen shows them.",
            ),
            Panel(
                "Read, by group",
                (
                    (
                        "sum by (consumergroup) "
                        '(rate(kafka_consumergroup_current_offset{job=~".*groups"}[$__rate_interval]))',
                        "{{consumergroup}}",
                    ),
                ),
                "cps",
            ),
            Panel(
                "Furthest behind",
                (('topk(20, kafka_consumergroup_lag{job=~".*groups"} > 0)', ""),),
                kind="table",
            ),
            Panel("Groups", ((f"sum by (protocol) ({GROUPS}group_count{{{ON}}})", "{{protocol}}"),)),
            Panel(
                "Consumer groups by state",
                ((f"sum by (state) ({GROUPS}consumer_group_count{{{ON}}})", "{{state}}"),),
            ),
            Panel("Share groups by state", ((f"sum by (state) ({GROUPS}share_group_count{{{ON}}})", "{{state}}"),)),
            Panel(
                "Classic groups that rebalance",
                (
                    (f"sum(kafka_server_groupmetadatamanager_numgroupspreparingrebalance{{{ON}}})", "preparing"),
                    (f"sum(kafka_server_groupmetadatamanager_numgroupscompletingrebalance{{{ON}}})", "completing"),
                ),
            ),
            Panel("Committed offsets", ((f"sum(kafka_server_groupmetadatamanager_numoffsets{{{ON}}})", ""),)),
            Panel(
                "Requests of groups",
                (
                    (
                        rate(
                            f"{REQUESTS}requests_total",
                            "request",
                            ON + ',request=~"OffsetCommit|Heartbeat|ConsumerGroupHeartbeat|JoinGroup|SyncGroup"',
                        ),
                        "{{request}}",
                    ),
                ),
                "reqps",
            ),
            Panel(
                "Loading of coordinators, longest",
                (
                    (f"{GROUPS}partition_load_time_max{{{ON}}}", "groups {{instance}}"),
                    (
                        f"kafka_server_transaction_coordinator_metrics_partition_load_time_max{{{ON}}}",
                        "transactions {{instance}}",
                    ),
                ),
                "ms",
            ),
            Panel("Open transactions", ((f"sum by (instance) (rayft_open_transactions{{{ON}}})", "{{instance}}"),)),
        ),
    ),
    Dashboard(
        "rayft-partitions",
        "rayft: partitions in trouble",
        (
            Panel(
                "Under min.insync.replicas",
                ((f"kafka_cluster_partition_underminisr{{{ON}}} == 1", ""),),
                kind="table",
                about="Producers with acks=all are refused.",
            ),
            Panel(
                "Lack replicas in sync", ((f"kafka_cluster_partition_underreplicated{{{ON}}} == 1", ""),), kind="table"
            ),
            Panel(
                "Just min.insync.replicas in sync",
                ((f"kafka_cluster_partition_atminisr{{{ON}}} == 1", ""),),
                kind="table",
            ),
            Panel(
                "Followers furthest behind",
                ((f"topk(20, kafka_server_fetcherlagmetrics_consumerlag{{{ON}}} > 0)", ""),),
                kind="table",
            ),
            Panel(
                "Largest",
                ((f"topk(20, max by (topic, partition) (kafka_log_log_size{{{ON}}}))", ""),),
                "bytes",
                "table",
            ),
            Panel(
                "Changes of ISRs",
                (
                    (rate(f"{MANAGER}isrshrinks_total", "instance"), "out {{instance}}"),
                    (rate(f"{MANAGER}isrexpands_total", "instance"), "in {{instance}}"),
                    (rate(f"{MANAGER}failedisrupdates_total", "instance"), "refused {{instance}}"),
                ),
                "cps",
            ),
            Panel(
                "Log directories without room",
                ((f"rayft_log_directory_without_room{{{ON}}}", "{{instance}} {{logDirectory}}"),),
            ),
            Panel("Replicas whose files cannot be used", ((f"{MANAGER}offlinereplicacount{{{ON}}}", "{{instance}}"),)),
        ),
    ),
)

ALERTS = (
    Alert(
        "RayftNodeDown",
        f"up{{{IN_RULES}}} == 0",
        "1m",
        "critical",
        "Node {{ $labels.instance }} shows no metrics.",
        "Look at its log, and at rayft health -b HOST:PORT.",
    ),
    Alert(
        "RayftNoActiveController",
        f"(sum({CONTROLLER}activecontrollercount{{{IN_RULES}}}) or vector(0)) != 1",
        "1m",
        "critical",
        "{{ $value }} controllers are active, not one.",
        "A majority of the voters has to be reachable: look at rayft status.",
    ),
    Alert(
        "RayftQuorumLacksVoters",
        f"(max(rayft_quorum_voters_caught_up{{{IN_RULES}}}) or vector(0)) < max({RAFT}number_of_voters{{{IN_RULES}}})",
        "1m",
        "warning",
        "Only {{ $value }} voters of the quorum have all that its leader has.",
        "Start the controllers that are down, or look for one that is slow, before another one is lost.",
    ),
    Alert(
        "RayftOfflinePartitions",
        f"max({CONTROLLER}offlinepartitionscount{{{IN_RULES}}}) > 0",
        "1m",
        "critical",
        "{{ $value }} partitions have no leader.",
        "rayft health --why names them and what they wait for.",
    ),
    Alert(
        "RayftUnderMinIsr",
        f"sum({MANAGER}underminisrpartitioncount{{{IN_RULES}}}) > 0",
        "1m",
        "critical",
        "{{ $value }} partitions have fewer than min.insync.replicas in sync: producers with acks=all are refused.",
        "Start the brokers that are down: rayft health --why names them.",
    ),
    Alert(
        "RayftUnderReplicated",
        f"sum({MANAGER}underreplicatedpartitions{{{IN_RULES}}}) > 0",
        "5m",
        "warning",
        "{{ $value }} partitions lack replicas in sync.",
        "Start the brokers that are down, or look for one that is slow.",
    ),
    Alert(
        "RayftFencedBrokers",
        f"max({CONTROLLER}fencedbrokercount{{{IN_RULES}}}) > 0",
        "1m",
        "warning",
        "{{ $value }} registered brokers are fenced.",
        "Start them, or unregister those that are gone for good.",
    ),
    Alert(
        "RayftOfflineDirectories",
        f"kafka_log_logmanager_offlinelogdirectorycount{{{IN_RULES}}} > 0",
        "0m",
        "critical",
        "{{ $value }} log directories of {{ $labels.instance }} have failed.",
        "Replace the disk: docs/operations.md says how.",
    ),
    Alert(
        "RayftNoRoom",
        f"rayft_log_directory_without_room{{{IN_RULES}}} > 0",
        "0m",
        "critical",
        "An append found no room in {{ $labels.logDirectory }} of {{ $labels.instance }}.",
        "Make room, or lower retention.bytes. It ends some seconds after an append has found room.",
    ),
    Alert(
        "RayftMetadataLag",
        f"kafka_controller_kafkaserver_metadatalag{{{IN_RULES}}} > 1000 "
        f"or {CONTROLLER}metadatalag{{{IN_RULES}}} > 1000",
        "2m",
        "warning",
        "{{ $labels.instance }} is {{ $value }} metadata records behind.",
        "Look for a node whose thread or disk is overloaded.",
    ),
    Alert(
        "RayftGroupStopped",
        f"sum by (consumergroup, topic) (changes(kafka_consumergroup_current_offset{{{OF_GROUPS}}}[5m])) == 0 "
        f"and sum by (consumergroup, topic) (delta(kafka_consumergroup_lag{{{OF_GROUPS}}}[5m])) > 0",
        "5m",
        "warning",
        "Group {{ $labels.consumergroup }} commits nothing of {{ $labels.topic }}, to which records come.",
        "Look whether its members are there: rayft group describe.",
    ),
    Alert(
        "RayftGroupsUnseen",
        f'up{{{OF_GROUPS}}} == 0 or sum by (instance) (rayft_exporter_unanswered{{{OF_GROUPS},what!="topics"}}) > 0',
        "5m",
        "warning",
        "{{ $labels.instance }} shows no lag of groups, or not of all.",
        "Look what rayft metrics writes; --topic and --group choose a part of a large cluster.",
    ),
    Alert(
        "RayftUncleanElections",
        f"sum(increase(kafka_controller_controllerstats_uncleanleaderelections_total{{{IN_RULES}}}[10m])) > 0",
        "0m",
        "critical",
        "A replica that was not in sync was made leader: records may be lost.",
        "rayft replay --table changes says which partitions.",
    ),
    Alert(
        "RayftFollowerLag",
        f"max by (instance) (kafka_server_replicafetchermanager_maxlag{{{IN_RULES}}}) > 10000",
        "5m",
        "warning",
        "A follower on {{ $labels.instance }} is {{ $value }} records behind.",
        "Look at its disk, its network and its thread's idle share.",
    ),
    Alert(
        "RayftBusy",
        f"kafka_server_kafkarequesthandlerpool_requesthandleravgidle_percent{{{IN_RULES}}} < 0.1",
        "5m",
        "warning",
        "The thread of {{ $labels.instance }} is idle for a share of {{ $value }} only.",
        "Move partitions to other brokers, or add some.",
    ),
    Alert(
        "RayftFewDescriptors",
        f"process_open_fds{{{IN_RULES}}} / process_max_fds{{{IN_RULES}}} > 0.85",
        "1m",
        "warning",
        "{{ $labels.instance }} has opened a share of {{ $value }} of the files that it may open.",
        "Raise ulimit -n.",
    ),
    Alert(
        "RayftFailedLogins",
        f"sum by (instance) (rate(rayft_failed_logins_total{{{IN_RULES}}}[5m])) > 1",
        "5m",
        "warning",
        "{{ $value }} logins a second fail at {{ $labels.instance }}.",
        "Its log names the hosts that they come from.",
    ),
)
