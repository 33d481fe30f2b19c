#!/bin/sh
set -eu
umask 077
cd "$(dirname "$0")"
{exports}export FLWR_HOME="$PWD/flwr"
# Once, while the SuperLink runs: from then on it knows the sites by their keys.
failed=0
for key in sites/*.pub; do
    name=$(basename "$key" .pub)
    if said=$(flwr supernode register "$key" {connection} --name "$name" 2>&1); then
        echo "$key is registered."
    else
        case "$said" in
            *"already in use"*) echo "$key is registered already." ;;
            *) echo "$key: $said" >&2; failed=1 ;;
        esac
    fi
done
exit $failed
