#!/usr/bin/env bash
# If a feature or a trait is missing, the error of the compiler must say which.
set -euo pipefail
cd "$(dirname "$0")/../.."
# The programs in messages/ use our crates with their default features. The first line of each states a part of its error.
directory=$(mktemp -d)
trap 'rm -rf "$directory"' EXIT
mkdir -p "$directory/src"
cp -r scripts/ci/messages "$directory/src/bin"
cp Cargo.lock "$directory"
cat >"$directory/Cargo.toml" <<END
[package]
name = "messages"
edition = "2024"
[workspace]
[dependencies]
busypoll = { path = "$PWD/lib/busypoll" }
idletimeout = { path = "$PWD/lib/idletimeout" }
osinterval = { path = "$PWD/lib/osinterval" }
tickmeter = { path = "$PWD/lib/tickmeter" }
tokio = { version = "1.47", features = ["macros", "rt-multi-thread", "sync", "time"] }
END
export CARGO_TARGET_DIR=${CARGO_TARGET_DIR:-$PWD/target}
failed=
for program in scripts/ci/messages/*.rs; do
  name=$(basename "$program" .rs)
  expected=$(sed -n '1s,^//! expected: ,,p' "$program")
  if log=$(cargo check --quiet --manifest-path "$directory/Cargo.toml" --bin "$name" 2>&1); then
    failed="$failed $name(compiles)"
  elif ! grep -qF -- "$expected" <<<"$log"; then
    printf '%s\nerror: the message above lacks: %s\n' "$log" "$expected" >&2
    failed="$failed $name"
  fi
done
[ -z "$failed" ] || { echo "error: unexpected messages:$failed" >&2; exit 1; }
