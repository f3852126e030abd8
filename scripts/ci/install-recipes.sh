#!/usr/bin/env bash
# The Nix flake must be valid, and the Homebrew formula must install a program that works.
set -euo pipefail
cd "$(dirname "$0")/../.."
. scripts/ci/common.sh
install_packages nix-bin ruby || true
version=$(sed -n '/^\[workspace.package\]/,/^\[/s/^version = "\(.*\)"/\1/p' Cargo.toml)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
checked=()

if command -v nix-instantiate >/dev/null && command -v nix >/dev/null; then
  export NIX_STORE_DIR=$work/store NIX_STATE_DIR=$work/state NIX_LOG_DIR=$work/log XDG_CACHE_HOME=$work/cache
  nix-instantiate --parse flake.nix >/dev/null
  # Evaluates the flake and its lock file for a system, without network: print_package ATTRIBUTE SYSTEM
  print_package() {
    nix --extra-experimental-features "nix-command flakes" --offline eval --no-write-lock-file --raw \
      --override-input nixpkgs "path:$PWD/scripts/ci/interop/nixpkgs" ".#packages.$2.default.$1"
  }
  for system in aarch64-darwin aarch64-linux x86_64-darwin x86_64-linux; do
    [ "$(print_package version $system)" = "$version" ] || { echo "error: the flake has another version for $system" >&2; exit 1; }
    print_package postInstall $system | bash -n
  done
  checked+=("the flake")
fi

if command -v ruby >/dev/null; then
  ruby -c Formula/osjitter.rb
  ruby scripts/ci/interop/formula.rb Formula/osjitter.rb
  checked+=("the formula")
fi

[ ${#checked[@]} -gt 0 ] || skip "neither Nix nor Ruby can be installed"
printf 'valid: %s\n' "${checked[@]}"
