# Functions that several steps share. Sourced after the step has changed to the root of the repository.
# shellcheck shell=bash disable=SC2100  # a date looks like arithmetic

# Installs the Debian packages that the machine lacks.
install_packages() {
  local package missing=()
  for package in "$@"; do dpkg -s "$package" >/dev/null 2>&1 || missing+=("$package"); done
  [ ${#missing[@]} -eq 0 ] && return
  apt-get update -q && apt-get install -q -y --no-install-recommends "${missing[@]}"
}

# Creates a Python environment in a directory and installs packages into it: make_python DIRECTORY PACKAGE...
make_python() {
  install_packages python3 python3-venv
  python3 -m venv "$1"
  "$1/bin/python" -m pip install -q --disable-pip-version-check "${@:2}"
}

# Ends the step as skipped; the reason appears in the summary.
skip() {
  echo "$*"
  exit 77
}

# Chooses a pinned nightly toolchain, adds components to it, and sets $nightly. Skips the step if it cannot be installed.
use_nightly() {
  local built=2026-05-19 # the commit date that the toolchain itself prints
  nightly=nightly-2026-05-20
  if ! rustup run "$nightly" rustc --version >/dev/null 2>&1; then
    if rustup run nightly rustc --version 2>/dev/null | grep -q "$built"; then
      nightly=nightly
    else
      rustup toolchain install "$nightly" --profile minimal || skip "no $nightly toolchain can be installed"
    fi
  fi
  rustup component add --toolchain "$nightly" "$@" || skip "$nightly lacks a component: $*"
}
