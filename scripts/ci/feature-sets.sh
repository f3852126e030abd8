#!/usr/bin/env bash
# Each feature must compile alone without a warning, because users combine features freely.
set -euo pipefail
cd "$(dirname "$0")/../.."
lint() { # PACKAGE FEATURES [OPTION]...
  cargo clippy --package "$1" --no-default-features --features "$2" "${@:3}" --locked -- -D warnings
}
for features in "" net signal tokio-compat futures-io,net; do lint busypoll "$features" --all-targets; done
for features in "" blocking interval periodic blocking,periodic interval,os-native periodic,os-native interval,periodic,stream periodic,serde; do
  lint osinterval "$features" --all-targets
done
# A thread without a runtime needs no tokio.
if cargo tree --package osinterval --no-default-features --features blocking --edges normal --locked | grep tokio; then
  echo "error: the feature blocking of osinterval depends on tokio" >&2
  exit 1
fi
for features in "" tokio osinterval busypoll metrics stream serde tracing stacks; do lint tickmeter "$features" --all-targets; done
for features in "" recalibrate-background serde; do lint osjitter-tach "$features" --all-targets; done
for features in "" series stats serde; do lint jitterstat "$features" --all-targets; done
lint osjitter-files "" --all-targets
lint osjitter-render "" --all-targets
for features in "" parquet; do lint osjitter-interop "$features" --all-targets; done
lint osjitter-benchloops quanta --all-targets
lint osjitter quanta --all-targets
