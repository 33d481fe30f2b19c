#!/bin/sh
set -eu
umask 077
cd "$(dirname "$0")"
{exports}export FLWR_HOME="$PWD/flwr"
pfedfair flower status .
# Again and again: after a power cut or a lost line the site comes back by itself.
while true; do
    flower-supernode --superlink {address} --root-certificates ca.pem \
        --auth-supernode-private-key site.key --node-config site.toml --trusted-entities trusted.yaml \
        --host 127.0.0.1 --port {port} &
    node=$!
    trap 'kill $node; wait $node; exit 0' INT TERM
    wait $node || true
    sleep 10
done
