#!/usr/bin/env bash
# Builds the files of a release; the same commit gives the same archives.
#
#   scripts/release/release.sh                builds the targets for which a Debian machine suffices: Linux on x86_64 and aarch64
#                                             (static), Windows
#   scripts/release/release.sh TARGET...      builds only these targets
#   scripts/release/release.sh --deb          also builds a Debian package of the static program; needs cargo-deb
#
# Each target has an archive with stripped programs, manual pages, completions and licences, and a bill of materials; every file has
# a checksum. Needs rustup. A program that runs on this machine, directly or with qemu, is tested by a short run before it is packed.
set -euo pipefail
cd "$(dirname "$0")/../.."
export CARGO_TARGET_DIR=${CARGO_TARGET_DIR:-$PWD/target}
# To debug a released program, its commit can be built again with debug information.
export CARGO_PROFILE_RELEASE_DEBUG=false CARGO_INCREMENTAL=0
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

# Prints the emulator that the programs of a target need on this machine, if any; fails if they cannot run: find_emulator TARGET
find_emulator() {
  local host
  host=$(rustc -vV | sed -n 's/^host: //p')
  case $1 in
    "$host") ;;
    "${host%-gnu}-musl") ;;
    aarch64-unknown-linux-musl) command -v qemu-aarch64 ;;
    *) return 1 ;;
  esac
}

# Checks that a program starts, measures, and writes the same report to stdout and to a file: check_program PROGRAM [EMULATOR]
check_program() {
  local program=$1 work
  shift
  work=$(mktemp -d)
  (cd "$work" && "$@" "$program" run --no-config --quiet --period 2ms --ticks 100 --subject nanosleep --subject os-interval \
    --out report --format json >out.json && cmp out.json report/report.json)
  "$@" "$program" report --format parquet --out "$work/report.parquet" "$work/report/report.json"
  rm -rf "$work"
}

# Writes manual pages, and completions with a program that runs on this machine: write_pages PROGRAM DIRECTORY [EMULATOR]
write_pages() {
  local program=$1 directory=$2
  shift 2
  mkdir -p "$directory/man" "$directory/completions"
  cargo run --quiet --locked -p osjitter-manpages -- "$directory/man"
  for shell in bash fish zsh elvish powershell; do
    "$@" "$program" completions "$shell" >"$directory/completions/osjitter.$shell"
  done
}

# Packs the directory NAME, with the same bytes for the same content: archive NAME FORMAT
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
def normalize(entry):
    entry.uid = entry.gid = 0
    entry.uname = entry.gname = "root"
    entry.mtime = stamp
    entry.mode = 0o755 if entry.isdir() or entry.mode & 0o100 else 0o644
    return entry
with open(f"{directory}.tar.gz", "wb") as file, gzip.GzipFile("", "wb", 9, file, stamp) as packed:
    with tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for path in [directory, *sorted(directory.rglob("*"))]:
            archive.add(path, path.relative_to(directory.parent), recursive=False, filter=normalize)
PY
  fi
  rm -rf "${out:?}/$name"
}

rustup target list --installed >"$out/installed"
host_files=$out/host-files
rm -rf "$host_files"
for target in "${targets[@]}"; do
  grep -qx "$target" "$out/installed" || rustup target add "$target"
  if [ "$target" = aarch64-unknown-linux-musl ]; then
    # The program contains no C code, so Rust's linker suffices.
    export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_MUSL_LINKER=rust-lld
  fi
  step "$target"
  cargo build --release --locked --features parquet --bins --target "$target"
  extension='' format=tar.gz
  case $target in *windows*) extension=.exe format=zip ;; esac
  built=$CARGO_TARGET_DIR/$target/release/osjitter
  if emulator=$(find_emulator "$target"); then
    # shellcheck disable=SC2086  # an emulator is one word or none
    check_program "$built$extension" $emulator
    # shellcheck disable=SC2086
    [ -d "$host_files" ] || write_pages "$built$extension" "$host_files" $emulator
  elif [ ! -d "$host_files" ]; then
    echo "release: cannot write the completions without a program that runs here; name a target of this machine first" >&2
    exit 2
  else
    echo "not tested, because it cannot run here: $target"
  fi
  name=osjitter-$version-$target
  rm -rf "${out:?}/$name"
  mkdir "$out/$name"
  cp "$built$extension" README.md CHANGELOG.md LICENSE-MIT LICENSE-APACHE "$out/$name"
  # The helper that counts instructions exists only for some targets.
  [ ! -e "$CARGO_TARGET_DIR/$target/release/osjitter-counts$extension" ] ||
    cp "$CARGO_TARGET_DIR/$target/release/osjitter-counts$extension" "$out/$name"
  cp -r "$host_files/man" "$host_files/completions" "$out/$name"
  python3 scripts/release/sbom.py "$target" >"$out/$name.cdx.json"
  (cd "$out/$name" && wc -c osjitter*)
  archive "$name" $format
  if [ -n "$deb" ] && [ "$target" = "$static" ]; then
    step "Debian package"
    rm -rf target/host-files
    mkdir -p target && cp -r "$host_files" target/host-files
    cargo deb --locked --no-build --no-strip --target "$target" --output "$out"
  fi
done
rm -rf "$host_files" "$out/installed"

step "Checksums"
python3 - "$out" <<'PY'
import hashlib, pathlib, sys
files = sorted(p for p in pathlib.Path(sys.argv[1]).iterdir() if p.name != "SHA256SUMS")
sums = "".join(f"{hashlib.sha256(p.read_bytes()).hexdigest()}  {p.name}\n" for p in files)
(pathlib.Path(sys.argv[1]) / "SHA256SUMS").write_text(sums)
print(sums, end="")
PY
echo "$out"
