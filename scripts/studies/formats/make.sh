#!/usr/bin/env bash
# Makes the files of tests/fixtures/formats with the tools and libraries whose formats osjitter reads. Last run: 2026-11-25.
#
# Needs root (cyclictest, oslat), Debian with python3-venv, Node.js, Go, Maven and a JDK. The files of HdrHistogram's libraries are the
# same in every run; what cyclictest, oslat and jitterdebugger measure is not. The machine's name, kernel release and build are replaced.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
fixtures=$here/../../../tests/fixtures/formats
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$fixtures" "$work/out"
cd "$work"

# HdrHistogram for Java: 1.2.1 writes V0, 2.0.3 and 2.1.6 write V1 with counts of 8 and of 2 bytes, 2.2.2 writes V2.
jar() { mvn -q -B org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy -Dartifact="$1" -DoutputDirectory="$work"; }
for version in 1.2.1 2.0.3 2.1.6 2.2.2; do jar "org.hdrhistogram:HdrHistogram:$version"; done
jar javax.xml.bind:jaxb-api:2.3.1
java_with() { java -cp "$work/HdrHistogram-$1.jar:$work/jaxb-api-2.3.1.jar" "${@:2}"; }
for version in 1.2.1 2.0.3 2.1.6 2.2.2; do java_with $version "$here/Logs.java" jhiccup "out/java-$version.hlog"; done
java_with 2.2.2 "$here/Logs.java" digits out/java-digits.hlog
java_with 2.1.6 "$here/Logs.java" ycsb out/java-ycsb.hlog
java_with 2.2.2 "$here/NewLogs.java" tags out/java-tags.hlog
java_with 2.2.2 "$here/NewLogs.java" double out/java-double.hlog

python3 -m venv venv
venv/bin/pip install -q hdrhistogram==0.10.8
venv/bin/python "$here/logs.py" out

for version in 1.2.0 2.0.3 3.0.1; do
  npm install --silent --prefix "js-$version" "hdr-histogram-js@$version" >/dev/null
  node "$here/logs.js" $version "$work/js-$version/node_modules/hdr-histogram-js" out
done

# The Go library writes 1 as the offset of its counts up to 1.2.0, and up to 1.1.2 milliseconds, with the end of an interval instead of
# its length.
for version in 1.1.2 1.2.0 1.4.0; do
  mkdir "go-$version" && cp "$here/logs.go" "go-$version/"
  (cd "go-$version" && go mod init logs && go get "github.com/HdrHistogram/hdrhistogram-go@v$version" && go build -o logs .) 2>/dev/null
  "go-$version/logs" "out/go-$version.hlog"
done
go-1.1.2/logs out/go-1.1.2-relative.hlog relative

python3 "$here/variants.py" out
# Expected values: those of the format's own reader. It cannot read what is cut off, and DoubleHistogram is another type.
logs=(out/*.hlog)
java_with 2.2.2 "$here/ReadLogs.java" $(printf '%s\n' "${logs[@]}" | grep -v -e double -e cut-off) >out/hlog.json

# rt-tests and jitterdebugger of Debian.
cyclictest -q -D 1 -i 1000 -t 2 -h 300 >out/cyclictest-2.4.txt
cyclictest -q -D 1 -i 1000 -t 2 -H 300 --histfile=out/cyclictest-2.4-sum.txt >log
cyclictest -D 1 -i 500 -t 2 -h 300 >out/cyclictest-2.4-lines.txt
cyclictest -qD1 -mi500 -a 1 -t 1 -h 300 --json=out/cyclictest-2.4-pinned.json >log
oslat -D 1 -c 0,1 --json=out/oslat-2.4.json >log
jitterdebugger -D 1s -o jitterdebugger >log 2>&1
cp jitterdebugger/results.json out/jitterdebugger-0.3.1+git.json
sed -E -i -e 's/("nodename": )"[^"]*"/\1"host"/' -e 's/("release": )"[^"]*"/\1"6.18.0"/' \
  -e 's/("version": )"#[^"]*(PREEMPT[A-Z_]*)[^"]*"/\1"#1 SMP \2"/' out/*.json

cp out/* "$fixtures/"
ls -l "$fixtures"
