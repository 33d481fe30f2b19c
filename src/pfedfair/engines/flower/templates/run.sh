#!/bin/sh
set -eu
umask 077
cd "$(dirname "$0")"
{exports}export FLWR_HOME="$PWD/flwr"
# Starts a run with the settings in run.toml, or goes on with the one in its folder.
# The app is the signed one: sites refuse any other.
exec pfedfair flower start-run . "$@"
