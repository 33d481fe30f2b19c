#!/bin/sh
set -eu
umask 077
cd "$(dirname "$0")"
{exports}export FLWR_HOME="$PWD/flwr"
pfedfair flower status .
# Reachable from this machine only: sites come through the proxy (proxy/nginx.conf).
exec flower-superlink --host 127.0.0.1 --port {port} \
    --ssl-ca-certfile tls/ca.pem --ssl-certfile tls/server.pem --ssl-keyfile tls/server.key \
    --enable-supernode-auth --database link.db
