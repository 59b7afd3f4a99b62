#!/bin/sh
# Formats the disk of this pod if it is new, and becomes its node. The number behind the pod's name makes the node's id.
set -eu
ROLE=$1
POD=${POD_NAME:-$(hostname)}
NUMBER=${POD##*-}
CONFIG=${RAYFT_CONFIG:-/etc/rayft}
if [ "$ROLE" = controller ]; then
    if [ "$NEW_CLUSTER" = yes ]; then
        QUORUM="--initial-controllers $INITIAL_CONTROLLERS"
    else
        QUORUM=--no-initial-controllers # it joins by itself (controller.quorum.auto.join.enable)
    fi
    set -- --set "controller.id=$((1001 + NUMBER))" --set "listeners=CONTROLLER://:9093" \
        --set "advertised.listeners=CONTROLLER://$POD.rayft-controllers:9093"
else
    QUORUM=
    set -- --set "broker.id=$((1 + NUMBER))" --set "advertised.listeners=PLAINTEXT://$POD.rayft-brokers:9092"
fi
set -- --config "$CONFIG/$ROLE.properties" "$@" ${RAYFT_SETTINGS:-}
# shellcheck disable=SC2086
rayft format "$@" --cluster-id "$CLUSTER_ID" $QUORUM --ignore-formatted
exec rayft node "$@"
