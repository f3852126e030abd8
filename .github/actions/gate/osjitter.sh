#!/usr/bin/env bash
# Gets the osjitter that the action runs: the release that the file `release` pins by its checksum, or a build of the action's own
# sources. It runs before the gate, so that no code of the pull request can replace the program.
#
#   osjitter.sh find     sets the output `program`; or, without a release for this runner, `directory` and `key` of a build
#   osjitter.sh build    builds into GATE_BUILD_DIRECTORY, unless a cache has filled it, and sets `program` and `built`
#
# GATE_OSJITTER is the input `osjitter`. OSJITTER_RELEASES is the address of a mirror of the releases, without a slash at its end.
# Exits with 4 if there is no program.
set -euo pipefail

: "${GATE_OSJITTER:=}" "${RUNNER_TEMP:=${TMPDIR:-/tmp}}"
: "${OSJITTER_RELEASES:=https://github.com/osjitter/osjitter/releases/download}"
summary=${GITHUB_STEP_SUMMARY:-/dev/null}
output=${GITHUB_OUTPUT:-/dev/null}
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$(cd "$here/../../.." && pwd)
unpacked=$RUNNER_TEMP/osjitter-gate-release

# shellcheck source=SCRIPTDIR/messages.sh
. "$here/messages.sh"

fail() {
  no_verdict "$1" >>"$summary"
  annotate error "$1"
  exit 4
}

# Prints the target of the release for this machine, or nothing.
runner_target() {
  case $(uname -s)-$(uname -m) in
    Linux-x86_64) echo x86_64-unknown-linux-musl ;;
    Linux-aarch64 | Linux-arm64) echo aarch64-unknown-linux-musl ;;
    Darwin-arm64) echo aarch64-apple-darwin ;;
    Darwin-x86_64) echo x86_64-apple-darwin ;;
    MINGW*-x86_64 | MSYS*-x86_64) echo x86_64-pc-windows-gnu ;;
  esac
}

# Prints the SHA-256 checksum of a file.
checksum() {
  if command -v sha256sum >/dev/null; then
    sha256sum <"$1" | cut -d ' ' -f 1
  else
    shasum -a 256 <"$1" | cut -d ' ' -f 1
  fi
}

# Downloads a file, and sets $reason if it fails: download URL FILE
download() {
  if command -v curl >/dev/null; then
    reason=$(curl --fail --silent --show-error --location --retry 3 --connect-timeout 20 --max-time 300 \
      --proto '=https,http,file' --proto-redir '=https' --output "$2" "$1" 2>&1)
  elif command -v wget >/dev/null; then
    reason=$(wget --quiet --tries=3 --timeout=60 --output-document="$2" "$1" 2>&1)
  else
    reason="neither curl nor wget is installed"
    return 1
  fi
}

# Unpacks an archive into the directory $unpacked, and sets $reason if it fails: unpack ARCHIVE
unpack() {
  rm -rf "$unpacked"
  mkdir -p "$unpacked"
  case $1 in
    *.zip) reason=$(unzip -q "$1" -d "$unpacked" 2>&1) ;;
    *) reason=$(tar -xzf "$1" -C "$unpacked" 2>&1) ;;
  esac
}

# Sets $program to the pinned release. If that cannot be had, returns 1 and sets $reason; a wrong checksum fails instead, because
# the file is not the one that was released.
use_release() {
  local version target archive expected file actual
  version=$(sed -n 's/^version //p' "$here/release")
  target=$(runner_target)
  reason="this version of the action pins no release"
  [ -n "$version" ] || return 1
  reason="the release $version has no program for $(uname -s) on $(uname -m)"
  [ -n "$target" ] || return 1
  archive=osjitter-$version-$target.tar.gz
  case $target in *windows*) archive=osjitter-$version-$target.zip ;; esac
  expected=$(sed -n "s/^\([0-9a-f]\{64\}\)  $archive\$/\1/p" "$here/release")
  [ -n "$expected" ] || return 1

  file=$RUNNER_TEMP/$archive
  download "$OSJITTER_RELEASES/v$version/$archive" "$file" || return 1
  actual=$(checksum "$file")
  if [ "$actual" != "$expected" ]; then
    rm -f "$file"
    fail "the checksum of $archive is $actual, but the action pins $expected: the file was damaged or replaced; it is not used"
  fi
  unpack "$file" || return 1
  rm -f "$file"
  program=$unpacked/${archive%.*}
  program=${program%.tar}/osjitter
  starts "$program" || return 1
}

# Returns whether a program starts, and sets $reason if it does not.
starts() { reason=$("$1" --version 2>&1 </dev/null); }

# Prints the key of a build in the cache. Programs that are built on another system may not start on this one.
build_key() {
  local files
  files=$(mktemp)
  (cd "$root" && find Cargo.toml Cargo.lock build.rs src lib -type f | LC_ALL=C sort | while IFS= read -r file; do
    printf '%s\n' "$file" && cat "$file"
  done) >"$files"
  uname -sm >>"$files"
  { ldd --version 2>&1 || true; } | sed -n 1p >>"$files"
  printf 'osjitter-gate-%s\n' "$(checksum "$files")"
  rm -f "$files"
}

find_program() {
  program=$GATE_OSJITTER
  if [ -n "$program" ] || use_release; then
    echo "osjitter: $program"
    echo "program=$program" >>"$output"
    return
  fi
  quoted_log echo "osjitter is built from source: $reason"
  printf '%s\n' "directory=$RUNNER_TEMP/osjitter-gate-build" "key=$(build_key)" >>"$output"
}

build_program() {
  local built=false
  program=$GATE_BUILD_DIRECTORY/bin/osjitter
  if ! starts "$program"; then
    command -v cargo >/dev/null || fail "cannot build osjitter: cargo is not installed; install Rust, or set the input osjitter"
    echo "::group::build osjitter"
    # The settings of cargo in the directory of the job are those of the pull request.
    cd "$root"
    quoted_log cargo install --quiet --locked --force --path "$root" --root "$GATE_BUILD_DIRECTORY" \
      --target-dir "$RUNNER_TEMP/osjitter-gate-target" || fail "cannot build osjitter; see the log"
    echo "::endgroup::"
    built=true
  fi
  printf '%s\n' "program=$program" "built=$built" >>"$output"
}

case ${1-} in
  find) find_program ;;
  build) build_program ;;
  *) fail "unknown argument '${1-}': expected find or build" ;;
esac
