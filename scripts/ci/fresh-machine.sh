#!/usr/bin/env bash
# Both commands of the README must work on a minimal Debian system that has only the packages that the README installs.
set -euo pipefail
cd "$(dirname "$0")/../.."
. scripts/ci/common.sh
. scripts/ci/readme-commands.sh
packages=$(readme_line "apt-get ")
toolchain=$(readme_line "curl ")
run=$(readme_line "cargo run --release -- run ")
tests=$(readme_line "cargo test ")

unshare --mount true || skip "mounting /proc for another system needs root"
install_packages debootstrap || skip "debootstrap cannot be installed"
work=$(mktemp -d)
system=$work/system
trap 'rm -rf --one-file-system "$work"' EXIT
make_python "$work/venv" jsonschema

# The system has the release and the mirror of this machine, and installs no recommended packages.
. /etc/os-release
mirror=$(apt-get indextargets --format '$(SITE)' "Codename: $VERSION_CODENAME" "Component: main" "Identifier: Packages" | head -n 1)
debootstrap --variant=minbase "$VERSION_CODENAME" "$system" ${mirror:+"$mirror"} || skip "debootstrap cannot install a system"
echo 'APT::Install-Recommends "false";' >"$system/etc/apt/apt.conf.d/no-recommends"

# The registry is the one that this machine uses, which may have a certificate that only this machine trusts.
mkdir -p "$system/usr/local/share/ca-certificates" "$system/root/.cargo"
find /usr/local/share/ca-certificates -name "*.crt" -exec cp {} "$system/usr/local/share/ca-certificates" \;
find "${CARGO_HOME:-$HOME/.cargo}" -maxdepth 1 -name "config*" -exec cp {} "$system/root/.cargo" \;

# Runs a line in the new system as a user who has just logged in, in the directory of the checkout. The mounts are in a namespace
# of their own, so they disappear with the last process, even if this step is killed.
on_fresh_machine() {
  local start=$SECONDS code=0
  echo "fresh machine: $1"
  unshare --mount bash -euc '
    mount -t proc proc "$1/proc"
    mount --rbind /sys "$1/sys"
    mount --rbind /dev "$1/dev"
    [ ! -d "$1/opt/rust" ] || mount --bind -o ro "$(rustc --print sysroot)" "$1/opt/rust"
    cd "$1"
    exec env -i HOME=/root "$(command -v chroot)" . bash --login -c "cd ~/osjitter && $2"
  ' bash "$system" "$1" || code=$?
  echo "fresh machine: exit code $code after $((SECONDS - start)) s: $1"
  return "$code"
}

git clone --quiet "$PWD" "$system/root/osjitter"
on_fresh_machine "$packages"
if curl --silent --show-error --fail --max-time 30 --output /dev/null "$(grep -o 'https://[^ ]*' <<<"$toolchain")"; then
  on_fresh_machine "$toolchain"
else
  echo "this machine cannot download rustup, so the new system uses the Rust toolchain of this machine"
  mkdir "$system/opt/rust"
  echo 'PATH=/opt/rust/bin:$PATH' >"$system/etc/profile.d/rust.sh"
fi

on_fresh_machine "$run"
# The checkout is fresh, so the only directory in results/ that git does not track belongs to this run.
results=$(git -C "$system/root/osjitter" ls-files --others --directory results)
"$work/venv/bin/python" scripts/ci/interop/run_files.py "$run" "$system/root/osjitter/$results"
on_fresh_machine "$tests"
