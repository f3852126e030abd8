#!/usr/bin/env bash
# Makes the files of tests/fixtures/formats with the tools and libraries whose formats osjitter reads. Last run: 2026-11-25.
#
#   make.sh [DIRECTORY]      [default: tests/fixtures/formats]
#
# Needs root (cyclictest, oslat), Debian 12 with python3-venv, gcc, zlib1g-dev, Node.js, Go, Maven and a JDK. Other versions of rt-tests
# come from other releases of Debian; nothing is installed. The files of HdrHistogram's libraries are the same in every run; what
# cyclictest, oslat, jitterdebugger and YCSB measure is not. The machine's name, kernel release and build are replaced.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
fixtures=${1:-$here/../../../tests/fixtures/formats}
mkdir -p "$fixtures" && fixtures=$(cd "$fixtures" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$work/out"
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
java_with 2.2.2 "$here/NewLogs.java" coarse out/java-coarse.hlog
java_with 2.2.2 "$here/NewLogs.java" kinds out/java-kinds.hlog
# Percentile distributions. Their values are printed, and become expected ones below.
for version in 1.2.1 2.2.2; do
  java_with $version "$here/Logs.java" hgrm out/java-$version.hgrm >>found.jsonl
  java_with $version "$here/Logs.java" csv out/java-$version-csv.hgrm >>found.jsonl
done

# YCSB 0.17, which writes V2 with HdrHistogram 2.1.12.
jar org.hdrhistogram:HdrHistogram:2.1.12
jar site.ycsb:core:0.17.0
jar org.apache.htrace:htrace-core4:4.1.0-incubating
for name in core mapper; do jar org.codehaus.jackson:jackson-$name-asl:1.9.4; done
mkdir ycsb
java -cp "core-0.17.0.jar:HdrHistogram-2.1.12.jar:htrace-core4-4.1.0-incubating.jar:jackson-core-asl-1.9.4.jar:jackson-mapper-asl-1.9.4.jar" \
  site.ycsb.Client -t -db site.ycsb.BasicDB -s -p status.interval=1 -target 600 -p workload=site.ycsb.workloads.CoreWorkload \
  -p recordcount=1000 -p operationcount=1500 -p measurementtype=hdrhistogram -p hdrhistogram.fileoutput=true \
  -p hdrhistogram.output.path=ycsb/ -p basicdb.verbose=false >log 2>&1
mv ycsb/READ.hdr out/ycsb-0.17.hlog

python3 -m venv venv
venv/bin/pip install -q hdrhistogram==0.10.8
venv/bin/python "$here/logs.py" out >>found.jsonl

for version in 1.2.0 2.0.3 3.0.1; do
  npm install --silent --prefix "js-$version" "hdr-histogram-js@$version" >/dev/null
  node "$here/logs.js" $version "$work/js-$version/node_modules/hdr-histogram-js" out >>found.jsonl
done

# The Go library writes 1 as the offset of its counts up to 1.2.0, and up to 1.1.2 milliseconds, with the end of an interval instead of
# its length.
for version in 1.1.2 1.2.0 1.4.0; do
  mkdir "go-$version" && cp "$here/logs.go" "go-$version/"
  (cd "go-$version" && go mod init logs && go get "github.com/HdrHistogram/hdrhistogram-go@v$version" && go build -o logs .) 2>/dev/null
  "go-$version/logs" "out/go-$version.hlog"
  "go-$version/logs" "out/go-$version.hgrm" hgrm >>found.jsonl
done
go-1.1.2/logs out/go-1.1.2-relative.hlog relative

python3 "$here/variants.py" out

# Packages of other releases of Debian, which are extracted instead of installed: extract SUITE PACKAGE...
mkdir -p apt/lists/partial apt/cache/archives/partial
# shellcheck disable=SC2016  # a placeholder of apt-get
mirror=$(apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' | head -n 1)
printf "deb [arch=amd64 signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $mirror %s main\n" \
  bullseye bookworm trixie sid >apt/sources.list
apt() {
  "$@" -q -o Dir::Etc::sourcelist="$work/apt/sources.list" -o Dir::Etc::sourceparts=- -o Dir::State::lists="$work/apt/lists" \
    -o Dir::Cache="$work/apt/cache" >/dev/null
}
apt apt-get update
extract() {
  local suite=$1 package
  for package in "${@:2}"; do
    mkdir -p "debs/$suite" "$suite"
    (cd "debs/$suite" && apt apt-get download "$package/$suite")
    dpkg-deb -x "debs/$suite/$package"_*.deb "$suite"
  done
}

# HdrHistogram for C.
extract sid libhdr-histogram-dev
gcc -O1 -Isid/usr/include -o distributions "$here/distributions.c" sid/usr/lib/x86_64-linux-gnu/libhdr_histogram_static.a -lz -lm
./distributions out >>found.jsonl

# Expected values: those of the format's own reader. It cannot read what is cut off, and DoubleHistogram is another type.
logs=(out/*.hlog)
java_with 2.2.2 "$here/ReadLogs.java" $(printf '%s\n' "${logs[@]}" | grep -v -e double -e cut-off) >out/hlog.json

# rt-tests of four releases. The newer ones need their own C library.
extract bullseye rt-tests
extract bookworm rt-tests jitterdebugger
extract trixie rt-tests libc6 libnuma1
extract sid rt-tests libc6 libnuma1 libcpupower1
run() {
  local suite=$1 program=$2 libraries=$work/$1/usr/lib/x86_64-linux-gnu loader=()
  [ ! -e "$libraries/ld-linux-x86-64.so.2" ] || loader=("$libraries/ld-linux-x86-64.so.2" --library-path "$libraries")
  "${loader[@]}" "$suite/usr/bin/$program" "${@:3}"
}
version() { basename debs/"$1"/rt-tests_*.deb | cut -d_ -f2 | cut -d- -f1; }
old=$(version bullseye) middle=$(version trixie) new=$(version sid)
run bullseye cyclictest -q -D 1 -i 1000 -t 2 -h 300 >out/cyclictest-$old.txt
run bullseye cyclictest -q -D 1 -i 1000 -t 2 -H 300 --histfile=out/cyclictest-$old-sum.txt >log
run bullseye cyclictest -q -D 1 -i 2000 -t 2 >out/cyclictest-$old-quiet.txt
run bookworm cyclictest -v -D 1 -i 10000 -t 2 >out/cyclictest-2.4-verbose.txt
run bookworm cyclictest -q -N -D 1 -i 1000 -t 1 >out/cyclictest-2.4-quiet-ns.txt
run bookworm cyclictest -q --smp -p 80 -D 1 -h 300 --json=out/cyclictest-2.4-smp.json >log
run bookworm cyclictest -q -N -D 1 -i 10000 -h 400000 --json=out/cyclictest-2.4-ns.json >log
run bookworm oslat -D 1 -c 0,1 >out/oslat-2.4.txt
run trixie cyclictest -q -D 1 -i 1000 -t 2 -h 300 >out/cyclictest-$middle.txt
run trixie cyclictest -D 1 -i 5000 -t 1 -p 80 >out/cyclictest-$middle-lines.txt
run trixie cyclictest -q -D 1 -i 1000 -t 2 -h 300 --json=out/cyclictest-$middle.json >log
run trixie oslat -D 1 -c 1 --json=out/oslat-$middle.json >log
run trixie oslat -D 1 -c 1 -W 500 --json=out/oslat-$middle-narrow.json >log
run trixie oslat -D 1 -c 1 -W 500 -z >out/oslat-$middle-narrow.txt
run sid cyclictest -q --smp -D 1 -H 300 >out/cyclictest-$new-smp.txt
run sid cyclictest -q -N -D 1 -i 1000 -t 2 >out/cyclictest-$new-quiet-ns.txt
run sid cyclictest -q -D 1 -i 1000 -a 1 -t 1 -h 300 --json=out/cyclictest-$new-pinned.json >log
run sid cyclictest -q -D 1 --json=out/cyclictest-$new-no-bins.json >log
run sid oslat -D 1 -c 0,1 -b 32 --json=out/oslat-$new.json >log
run sid oslat -D 1 -c 0,1 -b 32 >out/oslat-$new.txt
# hwlatdetect exits with 1 if there is a gap.
play_hwlat() { python3 "$here/hwlat.py" "$1/usr/sbin/hwlatdetect" "${@:2}" || [ $? = 1 ]; }
play_hwlat bullseye old --duration 2s >out/hwlatdetect-$old.txt
play_hwlat bookworm old --duration 2s --watch >out/hwlatdetect-2.4-watch.txt
play_hwlat trixie old --duration 2s --report "$work/out/hwlatdetect-$middle-report.txt" >log
play_hwlat sid new --duration 2s --cpu-list 0-1 >out/hwlatdetect-$new.txt
python3 "$here/rtla.py" out >>found.jsonl
run bookworm jitterdebugger -N -D 1s -a 0x2 -o jd-ns >log 2>&1
cp jd-ns/results.json out/jitterdebugger-0.3.1+git-ns.json

# rt-tests and jitterdebugger of this machine.
cyclictest -q -D 1 -i 1000 -t 2 -h 300 >out/cyclictest-2.4.txt
cyclictest -q -D 1 -i 1000 -t 2 -H 300 --histfile=out/cyclictest-2.4-sum.txt >log
cyclictest -D 1 -i 500 -t 2 -h 300 >out/cyclictest-2.4-lines.txt
cyclictest -qD1 -mi500 -a 1 -t 1 -h 300 --json=out/cyclictest-2.4-pinned.json >log
oslat -D 1 -c 0,1 --json=out/oslat-2.4.json >log
jitterdebugger -D 1s -o jitterdebugger >log 2>&1
cp jitterdebugger/results.json out/jitterdebugger-0.3.1+git.json
python3 "$here/variants.py" out jitterdebugger
sed -E -i -e 's/("nodename": )"[^"]*"/\1"host"/' -e 's/("release": )"[^"]*"/\1"6.18.0"/' \
  -e 's/("version": )"#[^"]*(PREEMPT[A-Z_]*)[^"]*"/\1"#1 SMP \2"/' out/*.json

python3 "$here/expected.py" out found.jsonl >out/expected.json
cp out/* "$fixtures/"
ls -l "$fixtures"
