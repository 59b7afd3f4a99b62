"""Mistakes in the rights of principals."""

from collections.abc import Iterator, Sequence
from typing import Any

from actors.authorization import decisions
from actors.authorization.decisions import Bucket, RuleIndex
from actors.authorization.resources import EVERYBODY, WILDCARD, Resource
from actors.broker.replication.fetch_sessions import SessionPartition
from actors.node.api import perform as performing
from actors.node.api.handlers import envelope, fetch
from actors.node.api.security.authorizer import Authorizer
from actors.node.api.security.topic_rights import Run, TopicRights
from actors.node.roles.broker.role import BrokerRole
from tests.simulator.cluster import OPERATOR
from tests.simulator.planted.registry import Patch, instead, mistake

OFFSET_COMMIT = 8
"""The API key of OffsetCommit."""


@mistake("guarded")
def what_is_denied_is_allowed_by_another_rule() -> Sequence[Patch]:
    """The first rule that says anything decides."""

    def decide(
        self: RuleIndex, principal: str, host: str, operation: int, resource: int, name: str, own: bool = True
    ) -> bool | None:
        found: bool | None = None
        for bucket in self._buckets(resource, name) if own else self._wide_buckets(resource, name):
            found = False
            for one in ((principal, host), (principal, WILDCARD), (EVERYBODY, host), (EVERYBODY, WILDCARD)):
                grants = bucket.get(one)
                if grants is not None and grants.allow & decisions.ALLOWS[operation]:
                    return True
                if grants is not None and grants.deny & decisions.DENIES[operation]:
                    return False
        return found

    return [instead(RuleIndex, "decide", decide)]


@mistake("guarded")
def prefixes_are_compared_the_wrong_way() -> Sequence[Patch]:
    """A prefixed rule is about the resources whose names are a prefix of its own."""

    def buckets(self: RuleIndex, resource: int, name: str) -> Iterator[Bucket]:
        literal = self._literal.get(resource, {})
        if name != WILDCARD and WILDCARD in literal:
            yield literal[WILDCARD]
        for (kind, prefix), bucket in self._prefixed.items():
            if kind == resource and prefix.startswith(name):
                yield bucket

    return [instead(RuleIndex, "_wide_buckets", buckets)]


@mistake("guarded")
def deleted_rules_stay_in_the_index() -> Sequence[Patch]:
    """Deleted rules are gone from the metadata, but rights go by the index."""
    put = RuleIndex.put

    def kept(self: RuleIndex, key: Any, rule: Any) -> None:
        if rule is not None:
            put(self, key, rule)

    return [instead(RuleIndex, "put", kept)]


@mistake("guarded")
def rules_of_a_snapshot_are_not_in_the_index() -> Sequence[Patch]:
    """A broker that begins at a snapshot knows the rules that were changed since."""
    loaded = BrokerRole.loaded

    def forgetful(self: BrokerRole) -> Iterator[None]:
        yield from loaded(self)
        self.cache.image.rules = RuleIndex()

    return [instead(BrokerRole, "loaded", forgetful)]


@mistake("guarded")
def rules_for_one_host_count_everywhere() -> Sequence[Patch]:
    """A principal that has a right at one address has it at every other."""
    count = RuleIndex._count

    def anywhere(self: RuleIndex, rule: Any, by: int) -> None:
        count(self, rule._replace(host=WILDCARD), by)

    return [instead(RuleIndex, "_count", anywhere)]


@mistake("guarded")
def envelopes_have_the_rights_of_their_broker() -> Sequence[Patch]:
    """What a client asks of the controller by way of a broker is done as a super user's, as Apache Kafka's brokers are."""
    perform = envelope.perform

    def as_the_operator(context: Any, api: Any, request: Any, call: Any) -> Any:
        return perform(context, api, request, call._replace(principal=OPERATOR))

    return [instead(envelope, "perform", as_the_operator)]


@mistake("guarded")
def envelopes_are_opened_without_a_look_at_rights() -> Sequence[Patch]:
    """Rights to a request as a whole are not asked for where it came in an Envelope."""
    return [instead(envelope, "perform", lambda context, api, request, call: api.handler(context, request, call))]


@mistake("guarded")
def a_fetch_session_keeps_its_rights() -> Sequence[Patch]:
    """The right to read a partition is looked at once, when it comes into the session."""
    may_read = fetch._may_read
    known: dict[SessionPartition, bool] = {}

    def kept(context: Any, call: Any, entry: SessionPartition) -> bool:
        if not known.get(entry, False):
            known[entry] = may_read(context, call, entry)
        return known[entry]

    return [instead(fetch, "_may_read", kept)]


@mistake("guarded")
def super_users_are_known_by_their_beginning() -> Sequence[Patch]:
    """`User:operators` may do everything, because `User:operator` may."""
    may = Authorizer._may

    def lenient(self: Authorizer, call: Any, *what: Any) -> bool:
        return any(call.principal.startswith(one) for one in self._super_users) or may(self, call, *what)

    return [instead(Authorizer, "_may", lenient)]


@mistake("guarded")
def a_node_speaks_for_every_node() -> Sequence[Patch]:
    """A peer with the certificate of one node votes, holds leases and moves high watermarks as any other."""
    return [
        instead(performing, "_other", lambda context, api, request, ids: None),
        instead(fetch, "may_be", lambda principal, id, which, of: True),
    ]


@mistake("guarded")
def metadata_of_all_topics_shows_all() -> Sequence[Patch]:
    """The list of topics is not filtered."""
    return [instead(TopicRights, "run", lambda self, name, order: Run(None, self._bits(True, list(self._operations))))]


@mistake("guarded")
def offsets_are_committed_without_a_right_to_the_group() -> Sequence[Patch]:
    """The right to read the topic is enough."""
    allowed = Authorizer.allowed

    def lenient(self: Authorizer, call: Any, operation: Any, resource: Any, *name: Any) -> bool:
        of_group = resource is Resource.GROUP and call.api_key == OFFSET_COMMIT
        return of_group or allowed(self, call, operation, resource, *name)

    return [instead(Authorizer, "allowed", lenient)]
