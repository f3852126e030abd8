#!/usr/bin/env bash
# A gate must read real suites of pytest-benchmark, Google Benchmark, Go, divan, JMH and hyperfine, and find a longer benchmark in each.
set -euo pipefail
cd "$(dirname "$0")/../.."
# OSJITTER names a program that is already built. A harness that cannot be installed is named and left out.
. scripts/ci/common.sh
install_packages python3 || skip "python3 cannot be installed"
osjitter=${OSJITTER-}
if [ -z "$osjitter" ]; then
  cargo build --release --locked
  osjitter=target/release/osjitter
fi
suites=$PWD/scripts/ci/harnesses
built=$PWD/target/harnesses
mkdir -p "$built"
# A Python environment must not be moved, and is complete only if the plugin is installed.
make_python "$built/python" pytest pytest-benchmark || rm -rf "$built/python"
if install_packages g++ libbenchmark-dev; then
  g++ -O2 "$suites/google/suite.cc" -o "$built/google" -lbenchmark -lpthread
fi
if command -v go >/dev/null || install_packages golang-go; then
  (cd "$suites/go" && go test -c -o "$built/go.test")
fi
if cargo fetch --locked --manifest-path "$suites/divan/Cargo.toml"; then
  bench=$(cargo bench --locked --manifest-path "$suites/divan/Cargo.toml" --target-dir "$built/target" --bench suite --no-run \
    --message-format json-render-diagnostics | sed -n 's/.*"executable":"\([^"]*\)".*/\1/p')
  cp "$bench" "$built/divan"
fi
rm -rf "$built/jmh-build"
if install_packages maven default-jdk-headless && cp -r "$suites/jmh" "$built/jmh-build" &&
  (cd "$built/jmh-build" && mvn --quiet --batch-mode compile dependency:build-classpath -Dmdep.outputFile=classpath); then
  printf '#!/bin/sh\nexec java -cp %s org.openjdk.jmh.Main "$@"\n' \
    "$built/jmh-build/target/classes:$(cat "$built/jmh-build/classpath")" > "$built/jmh"
  chmod +x "$built/jmh"
fi
if install_packages hyperfine; then cp "$(command -v hyperfine)" "$built/hyperfine"; fi
for harness in python google go.test divan jmh hyperfine; do
  [ ! -e "$built/$harness" ] || found=yes
done
[ -n "${found-}" ] || skip "no harness can be installed"
python3 "$suites/check.py" "$osjitter" "$built"
