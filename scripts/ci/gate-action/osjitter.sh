#!/usr/bin/env bash
# The action must run exactly the released program that it pins, and build one only if there is none.
set -euo pipefail
cd "$(dirname "$0")/../../.."
# Plays a release in a directory, and a build with a program in place of cargo. Takes seconds; needs tar, and curl or wget.
pin=$PWD/scripts/release/pin-action.sh
work=$(mktemp -d)/"it's here & there"
releases=$(dirname "$work")/releases # part of an address, so without a space
mkdir -p "$work/bin" "$work/runner" "$work/workspace"
trap 'rm -rf "$(dirname "$work")"' EXIT

die() {
  cat "$work/log" "$work/output" >&2 || true
  printf 'gate-action: osjitter: line %s: %s\n' "${BASH_LINENO[0]}" "$*" >&2
  exit 1
}

# The action as the runner downloads it: without a repository.
action=$work/action
mkdir -p "$action/.github/actions" "$action/src" "$action/lib"
cp -r .github/actions/gate "$action/.github/actions/gate"
echo 'fn main() {}' >"$action/src/main.rs"
touch "$action/Cargo.toml" "$action/Cargo.lock" "$action/build.rs"
script=$action/.github/actions/gate/osjitter.sh
export ACTION_RELEASE_FILE=$action/.github/actions/gate/release

# Builds a release whose program prints its name: release VERSION EXIT-CODE
case $(uname -s)-$(uname -m) in
  Linux-x86_64) target=x86_64-unknown-linux-musl ;;
  Linux-aarch64) target=aarch64-unknown-linux-musl ;;
  Darwin-arm64) target=aarch64-apple-darwin ;;
  Darwin-x86_64) target=x86_64-apple-darwin ;;
  *) echo "skipped: this machine has no release"; exit 77 ;;
esac
release() {
  local name=osjitter-$1-$target directory=$releases/v$1
  mkdir -p "$directory/$name"
  printf '#!/bin/sh\necho "osjitter %s"\nexit %s\n' "$1" "$2" >"$directory/$name/osjitter"
  chmod +x "$directory/$name/osjitter"
  tar -czf "$directory/$name.tar.gz" -C "$directory" "$name"
  rm -r "${directory:?}/$name"
  touch "$directory/$name.cdx.json"
  (cd "$directory" && { sha256sum -- * || shasum -a 256 -- *; } 2>/dev/null) >"$directory.sums"
  mv "$directory.sums" "$directory/SHA256SUMS"
}

# Runs the script in the directory of a pull request: run ARGUMENT [NAME=VALUE]... It sets $code, and writes output and log.
run() {
  : >"$work/output"
  : >"$work/summary"
  code=0
  (cd "$work/workspace" && env -u GATE_OSJITTER RUNNER_TEMP="$work/runner" GITHUB_OUTPUT="$work/output" \
    GITHUB_STEP_SUMMARY="$work/summary" OSJITTER_RELEASES="file://$releases" GATE_BUILD_DIRECTORY="$work/runner/build" \
    "${@:2}" bash "$script" "$1") >"$work/log" 2>&1 || code=$?
}
output() { sed -n "s/^$1=//p" "$work/output"; }
expect_build() { # reason
  [ "$code" = 0 ] || die "exit code $code"
  [ -z "$(output program)" ] || die "expected a build, got the program $(output program)"
  [[ $(output key) =~ ^osjitter-gate-[0-9a-f]{64}$ ]] || die "no key"
  [ -n "$(output directory)" ] || die "no directory"
  grep -q "osjitter is built from source: .*$1" "$work/log" || die "the log lacks the reason '$1'"
}

# Nothing is released: the program is built, with a key of its sources.
run find
expect_build 'pins no release'
key=$(output key)
run find
[ "$(output key)" = "$key" ] || die "the key of the same sources differs"
echo 'fn main() { run() }' >"$action/src/main.rs"
run find
[ "$(output key)" != "$key" ] || die "the key of other sources is the same"

# A pinned release is used, from any directory of the runner.
release 0.1.0 0
bash "$pin" "$releases/v0.1.0/SHA256SUMS" >/dev/null
[ "$(grep -c . "$ACTION_RELEASE_FILE")" = 4 ] || die "the release is not pinned: $(cat "$ACTION_RELEASE_FILE")"
run find
[ "$code" = 0 ] || die "exit code $code"
[ "$("$(output program)")" = "osjitter 0.1.0" ] || die "another program than the released one"
[ -z "$(output key)" ] || die "a build although there is a release"

# A file with another checksum is never run, and not replaced by a build either: the release was changed.
cp -r "$releases" "$releases.original"
release 0.1.0 1
rm -r "$work/runner/osjitter-gate-release"
run find
[ "$code" = 4 ] || die "exit code $code for a wrong checksum"
[ -z "$(cat "$work/output")" ] || die "outputs for a wrong checksum"
grep -q '^::error title=Jitter gate::the checksum of osjitter-0.1.0-.* but the action pins .*; it is not used$' "$work/log" ||
  die "no annotation of the wrong checksum"
grep -q 'the checksum of' "$work/summary" || die "the summary lacks the checksum"
[ ! -e "$work/runner/osjitter-gate-release" ] || die "a file with a wrong checksum was unpacked"
# The list of checksums next to the files is as untrusted as the files.
grep -q "$(sed -n "s/  osjitter-0.1.0-$target.tar.gz//p" "$releases/v0.1.0/SHA256SUMS")" "$ACTION_RELEASE_FILE" &&
  die "the action trusts the new list"

# Without the file or the server, the program is built.
rm -r "$releases/v0.1.0"
run find
expect_build "v0.1.0"
rm -r "$releases" && mv "$releases.original" "$releases"
run find OSJITTER_RELEASES=http://127.0.0.1:9
expect_build "127.0.0.1"
# So it is if the runner cannot start it, or has another processor.
release 0.2.0 1
bash "$pin" "$releases/v0.2.0/SHA256SUMS" >/dev/null
[ "$(grep -c '^version' "$ACTION_RELEASE_FILE")" = 1 ] || die "two versions are pinned"
run find
expect_build "osjitter 0.2.0"
sed -i.bak "s/$target/riscv64-unknown-linux-musl/" "$ACTION_RELEASE_FILE"
run find
expect_build "has no program for"

# The input has priority.
run find GATE_OSJITTER=target/release/osjitter
[ "$(output program)" = target/release/osjitter ] || die "not the program of the input"

# The build: only once, and not with the settings of the pull request.
cat >"$work/bin/cargo" <<'CARGO'
#!/bin/sh
pwd >>"$CARGO_LOG"
while [ "$1" != --root ]; do shift; done
mkdir -p "$2/bin"
printf '#!/bin/sh\necho osjitter built\n' >"$2/bin/osjitter"
chmod +x "$2/bin/osjitter"
echo "::error::forged"
CARGO
chmod +x "$work/bin/cargo"
cargo=(PATH="$work/bin:$PATH" CARGO_LOG="$work/cargo.log")
for built in true false; do
  run build "${cargo[@]}"
  [ "$code" = 0 ] || die "exit code $code"
  [ "$(output built)" = $built ] || die "built=$(output built), expected $built"
  [ "$("$(output program)")" = "osjitter built" ] || die "another program than the built one"
done
[ "$(cat "$work/cargo.log")" = "$(realpath "$action")" ] || die "cargo ran in $(cat "$work/cargo.log")"
# A cached program that does not start here is built again.
printf '#!/bin/sh\nexit 1\n' >"$work/runner/build/bin/osjitter"
run build "${cargo[@]}"
[ "$(output built)" = true ] || die "a program that does not start is used"
rm -r "$work/runner/build"
printf '#!/bin/sh\nexit 101\n' >"$work/bin/cargo"
run build "${cargo[@]}"
[ "$code" = 4 ] || die "exit code $code of a failed build"
grep -q '^::error title=Jitter gate::cannot build osjitter; see the log$' "$work/log" || die "no annotation of the failed build"

# The script that pins a release refuses anything else.
for sums in "" "0123  osjitter-0.1.0-$target.tar.gz" "$(cat "$releases"/v*/SHA256SUMS)"; do
  printf '%s\n' "$sums" >"$work/sums"
  ! bash "$pin" "$work/sums" >/dev/null 2>&1 || die "this was pinned: $sums"
done
echo "gate-action: the pinned release is used, and nothing else"
