#!/bin/sh
# Builds the static gateway if its sources changed, and prints the path of the binary.
set -eu
cd "$(dirname "$0")"
host=$(rustc -vV | sed -n 's/^host: //p')
# An explicit target keeps the flags away from procedural macros, which cannot be static.
RUSTFLAGS="-C target-feature=+crt-static" \
    cargo build --release --locked --quiet --target "$host" --target-dir target >&2
echo "$PWD/target/$host/release/gateway"
