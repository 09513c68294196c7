#!/bin/sh
# Builds the static runner if its sources changed, and prints the path of the binary.
set -eu
cd "$(dirname "$0")"
cargo build --release --locked --quiet --target-dir target >&2
echo "$PWD/target/release/runner"
