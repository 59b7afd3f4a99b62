"""UpdateFeatures (57, KIP-584): the finalized level of `metadata.format` and of other features.

This file alone decides which change of a feature's level is allowed. Rules:

1. A level goes up only when every registered broker and every controller of the quorum supports it (R631-091). Controllers
   say what they support in their heartbeats; one that has not been heard of does not.
2. `metadata.format` goes from 1 to 2, at one offset: what is written before it is of the old format (R631-092). It never
   goes back: the log or a snapshot may hold what level 1 cannot say (R631-218). Levels above 2 are another family, and
   storage is formatted for one of them (R631-219).
3. `transaction.version` (KIP-890), `group.version` (KIP-848), `share.version` (KIP-932) and `streams.version` (KIP-1071) go
   up, and down with a downgrade that is asked for as one; 0 removes them.
4. All updates of a request are made, or none.
"""

from collections import Counter
from typing import TYPE_CHECKING, Any

from actors.controller.configs import ChangeRefused
from actors.controller.state import METADATA_FORMAT, Result, State
from actors.metadata.features import (
    GROUP_VERSION,
    GROUP_VERSIONS,
    SHARE_VERSION,
    SHARE_VERSIONS,
    STREAMS_VERSION,
    STREAMS_VERSIONS,
    TRANSACTION_VERSION,
    TRANSACTION_VERSIONS,
)
from actors.metadata.ops import FeatureSet
from actors.ports import Now, Random
from actors.wire.errors import ErrorCode
from actors.wire.messages import message

if TYPE_CHECKING:
    from actors.wire.schemas.rpc import UpdateFeaturesRequest

OURS: dict[str, tuple[int, int]] = {
    METADATA_FORMAT: (1, 2),
    TRANSACTION_VERSION: TRANSACTION_VERSIONS,
    GROUP_VERSION: GROUP_VERSIONS,
    SHARE_VERSION: SHARE_VERSIONS,
    STREAMS_VERSION: STREAMS_VERSIONS,
}
"""The lowest and the highest level of each feature that this software supports."""
UPGRADE, SAFE_DOWNGRADE, UNSAFE_DOWNGRADE = 1, 2, 3


def update_features(state: State, request: "UpdateFeaturesRequest", now: Now, random: Random) -> Result:
    """Carry out an UpdateFeaturesRequest. Errors, by feature and for the whole: 42 INVALID_REQUEST, 95
    INVALID_UPDATE_VERSION, 96."""
    kind = message("UpdateFeaturesResponse")
    reply = kind()
    ops: list[Any] = []
    times = Counter(update.feature for update in request.feature_updates)
    first: tuple[ErrorCode, str] | None = None
    for update in request.feature_updates:
        code: ErrorCode = ErrorCode.NONE
        text: str | None = None
        try:
            if times[update.feature] > 1:
                raise ChangeRefused(ErrorCode.INVALID_REQUEST, f"The feature {update.feature} is named more than once.")
            ops += _step(state, update)
        except ChangeRefused as refused:
            code, text = refused.code, refused.text
            first = first or (code, text)
        reply.results.append(
            kind.UpdatableFeatureResult(feature=update.feature, error_code=int(code), error_message=text)
        )
    if first is not None:
        # Every result names the first failure as the reason; nothing is changed.
        code, text = first
        for result in reply.results:
            if result.error_code == 0:
                result.error_code, result.error_message = int(code), f"Not tried: {text}"
        reply.error_code, reply.error_message = int(code), text
        return Result((), reply)
    return Result(() if request.validate_only else ops, reply)


def _step(state: State, update: "UpdateFeaturesRequest.FeatureUpdateKey") -> list[FeatureSet]:
    name, level = update.feature, update.max_version_level
    if update.upgrade_type not in (UPGRADE, SAFE_DOWNGRADE, UNSAFE_DOWNGRADE):
        raise ChangeRefused(ErrorCode.INVALID_REQUEST, f"Upgrade type {update.upgrade_type} is unknown.")
    present = state.image.feature(name)
    low, high = OURS.get(name, (0, 0))
    if level < 0 or (level > 0 and not low <= level <= high):
        raise ChangeRefused(
            ErrorCode.INVALID_UPDATE_VERSION,
            f"Invalid update version {level} for feature {name}. Local "
            f"controller {state.me} "
            + (f"only supports versions {low}-{high}." if high else "does not support this feature."),
        )
    if level == present:
        return []
    if level < present:
        if update.upgrade_type == UPGRADE and not update.allow_downgrade:
            raise ChangeRefused(
                ErrorCode.INVALID_UPDATE_VERSION,
                f"Invalid update version {level} for feature {name}. Can't "
                f"downgrade the version of this feature without setting the upgrade type to either safe or unsafe "
                f"downgrade.",
            )
        if name == METADATA_FORMAT:
            raise ChangeRefused(
                ErrorCode.INVALID_UPDATE_VERSION,
                f"{name} cannot go back from {present} to {level}: the log or a "
                f"snapshot may hold records that level {level} does not have.",
            )
    _check_supported(state, name, level)
    return [FeatureSet(name, level)]


def _check_supported(state: State, name: str, level: int) -> None:
    # Fenced brokers too: they come back, and have to replay what is written meanwhile.
    for broker in state.image.brokers():
        supported = {feature: (low, high) for feature, low, high in broker.features}
        low, high = supported.get(name, (0, 0))
        if not low <= level <= high:
            raise ChangeRefused(
                ErrorCode.INVALID_UPDATE_VERSION,
                f"Invalid update version {level} for feature {name}. Broker "
                f"{broker.id} only supports versions {low}-{high}.",
            )
    for controller in sorted(state.controllers - {state.me}):
        report = state.soft.controllers.get(controller)
        if report is None:
            raise ChangeRefused(
                ErrorCode.INVALID_UPDATE_VERSION,
                f"Invalid update version {level} for feature {name}. Controller "
                f"{controller} has not said what it supports.",
            )
        supported = {feature: (low, high) for feature, low, high in report.features}
        low, high = supported.get(name, (0, 0))
        if not low <= level <= high:
            raise ChangeRefused(
                ErrorCode.INVALID_UPDATE_VERSION,
                f"Invalid update version {level} for feature {name}. Controller "
                f"{controller} only supports versions {low}-{high}.",
            )
