#!/usr/bin/env bash
# What a release hands out: for each target an archive with the stripped programs, the manual pages, completions and
# licences; its bill of materials; and a checksum of every file. The same commit gives the same archives.
#
#   scripts/release.sh                what a Debian machine can build: Linux on x86_64 and aarch64 (static), Windows
#   scripts/release.sh TARGET...      only these
#   scripts/release.sh --deb          a Debian package of the static program, too; needs cargo-deb
#
# Needs rustup. A program that can be started here, by itself or under qemu, measures something before it is packed.
set -euo pipefail
cd "$(dirname "$0")/.."
export CARGO_TARGET_DIR=${CARGO_TARGET_DIR:-$PWD/target}
# Who debugs a released program has its commit, and builds it again.
export CARGO_PROFILE_DIST_STRIP=symbols CARGO_PROFILE_DIST_DEBUG=false CARGO_INCREMENTAL=0
static=x86_64-unknown-linux-musl
deb=
targets=()
for argument in "$@"; do
  case $argument in
    --deb) deb=yes ;;
    -*) echo "release: unknown option $argument" >&2; exit 2 ;;
    *) targets+=("$argument") ;;
  esac
done
[ ${#targets[@]} -gt 0 ] || targets=("$static" aarch64-unknown-linux-musl x86_64-pc-windows-gnu)
version=$(sed -n '/^\[workspace.package\]/,/^\[/s/^version = "\(.*\)"/\1/p' Cargo.toml)
SOURCE_DATE_EPOCH=$(git log -1 --format=%ct)
export SOURCE_DATE_EPOCH
out=$CARGO_TARGET_DIR/release-$version
rm -rf "$out"
mkdir -p "$out"

step() { printf '\n-- %s (after %d s)\n' "$*" "$SECONDS"; }

# How a program of a target is started here: nothing, or an emulator; fails if it cannot be.
runner() {
  local host
  host=$(rustc -vV | sed -n 's/^host: //p')
  case $1 in
    "$host") ;;
    "${host%-gnu}-musl") ;;
    aarch64-unknown-linux-musl) command -v qemu-aarch64 ;;
    *) return 1 ;;
  esac
}

# The program starts, measures, and writes what it says it does.
tried() {
  local program=$1 work
  shift
  work=$(mktemp -d)
  (cd "$work" && "$@" "$program" run --no-config --quiet --period 2ms --ticks 100 --subject nanosleep --subject os-interval \
    --out report --format json >out.json && cmp out.json report/report.json)
  "$@" "$program" report --format parquet --out "$work/report.parquet" "$work/report/report.json"
  rm -rf "$work"
}

# What is installed beside a program: written by one that runs here.
pages() {
  local program=$1 into=$2
  shift 2
  mkdir -p "$into/man" "$into/completions"
  "$@" "$program" man "$into/man"
  for shell in bash fish zsh elvish powershell; do
    "$@" "$program" completions "$shell" >"$into/completions/osjitter.$shell"
  done
}

archive() {
  local name=$1 format=$2
  if [ "$format" = zip ]; then
    python3 - "$out/$name" "$SOURCE_DATE_EPOCH" <<'PY'
import pathlib, sys, time, zipfile
directory, stamp = pathlib.Path(sys.argv[1]), time.gmtime(int(sys.argv[2]))[:6]
with zipfile.ZipFile(f"{directory}.zip", "w", zipfile.ZIP_DEFLATED) as archive:
    for file in sorted(p for p in directory.rglob("*") if p.is_file()):
        entry = zipfile.ZipInfo(str(file.relative_to(directory.parent)), stamp)
        entry.external_attr = (0o755 if file.suffix == ".exe" else 0o644) << 16
        archive.writestr(entry, file.read_bytes(), zipfile.ZIP_DEFLATED)
PY
  else
    python3 - "$out/$name" "$SOURCE_DATE_EPOCH" <<'PY'
import gzip, pathlib, sys, tarfile
directory, stamp = pathlib.Path(sys.argv[1]), int(sys.argv[2])
def plain(entry):
    entry.uid = entry.gid = 0
    entry.uname = entry.gname = "root"
    entry.mtime = stamp
    entry.mode = 0o755 if entry.isdir() or entry.mode & 0o100 else 0o644
    return entry
with open(f"{directory}.tar.gz", "wb") as file, gzip.GzipFile("", "wb", 9, file, stamp) as packed:
    with tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for path in [directory, *sorted(directory.rglob("*"))]:
            archive.add(path, path.relative_to(directory.parent), recursive=False, filter=plain)
PY
  fi
  rm -rf "${out:?}/$name"
}

rustup target list --installed >"$out/installed"
beside=$out/beside
rm -rf "$beside"
for target in "${targets[@]}"; do
  grep -qx "$target" "$out/installed" || rustup target add "$target"
  if [ "$target" = aarch64-unknown-linux-musl ]; then
    # Nothing of C is in it, so that Rust's own linker does.
    export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_MUSL_LINKER=rust-lld
  fi
  step "$target"
  cargo build --profile dist --locked --features parquet --bins --target "$target"
  extension='' format=tar.gz
  case $target in *windows*) extension=.exe format=zip ;; esac
  built=$CARGO_TARGET_DIR/$target/dist/osjitter
  if emulator=$(runner "$target"); then
    tried "$built$extension" $emulator
    [ -d "$beside" ] || pages "$built$extension" "$beside" $emulator
  elif [ ! -d "$beside" ]; then
    echo "release: no program so far runs here and writes the manual pages; name a target of this machine first" >&2
    exit 2
  else
    echo "not started here: $target"
  fi
  name=osjitter-$version-$target
  rm -rf "${out:?}/$name"
  mkdir "$out/$name"
  cp "$built$extension" README.md CHANGELOG.md LICENSE-MIT LICENSE-APACHE "$out/$name"
  # A helper that traps instructions, where there is one.
  [ ! -e "$CARGO_TARGET_DIR/$target/dist/osjitter-counts$extension" ] ||
    cp "$CARGO_TARGET_DIR/$target/dist/osjitter-counts$extension" "$out/$name"
  cp -r "$beside/man" "$beside/completions" "$out/$name"
  python3 scripts/sbom.py "$target" >"$out/$name.cdx.json"
  ls -l "$out/$name" | awk '{ print $5, $9 }' | grep osjitter
  archive "$name" $format
  if [ -n "$deb" ] && [ "$target" = "$static" ]; then
    step "A Debian package"
    rm -rf target/beside
    mkdir -p target && cp -r "$beside" target/beside
    cargo deb --profile dist --locked --no-build --no-strip --target "$target" --output "$out"
  fi
done
rm -rf "$beside" "$out/installed"

step "Checksums"
python3 - "$out" <<'PY'
import hashlib, pathlib, sys
files = sorted(p for p in pathlib.Path(sys.argv[1]).iterdir() if p.name != "SHA256SUMS")
sums = "".join(f"{hashlib.sha256(p.read_bytes()).hexdigest()}  {p.name}\n" for p in files)
(pathlib.Path(sys.argv[1]) / "SHA256SUMS").write_text(sums)
print(sums, end="")
PY
echo "$out"
