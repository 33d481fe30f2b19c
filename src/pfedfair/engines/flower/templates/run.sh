#!/bin/sh
set -eu
umask 077
cd "$(dirname "$0")"
{exports}export FLWR_HOME="$PWD/flwr"
# Starts a run with the settings in run.toml, or goes on with the one in its folder.
exec flwr run app {connection} --run-config run.toml "$@"
