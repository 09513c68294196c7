#!/bin/sh
# Builds the static runner, if anything changed, and prints where it is.
set -eu
cd "$(dirname "$0")"
cargo build --release --locked --quiet --target-dir target >&2
echo "$PWD/target/release/runner"
