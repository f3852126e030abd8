#!/usr/bin/env bash
# Every crate must be publishable, so each one is packaged, built from its package, and uploaded to the registry as a dry run.
set -euo pipefail
cd "$(dirname "$0")/../.."
# cargo caches unpacked packages by registry path and would use an older state of the same version, so this step has a separate
# target directory. The dependencies are shared.
packages=$(mktemp -d)
trap 'rm -rf "$packages"' EXIT
mkdir -p target/debug
ln -s "$PWD/target/debug" "$packages/debug"
export CARGO_TARGET_DIR=$packages

make_packages() {
  cargo package --workspace --exclude osjitter-manpages --locked --allow-dirty --offline "$@"
}

# cargo orders the crates by their dependencies, and finds those that are not in the registry yet in the packages made before.
# A dry run reads the index of the registry. Without network, the packages are made and built, and only the upload is left out.
if [ "${CARGO_NET_OFFLINE-}" = true ]; then
  make_packages
else
  cargo publish --workspace --dry-run --locked --allow-dirty
fi

# A package contains its README and its licences, and is far below the limit of the registry, 10 MB.
make_packages --no-verify --quiet
total=0
for package in "$packages"/package/*.crate; do
  name=$(basename "$package" .crate)
  files=$(tar --list --file "$package")
  for file in Cargo.toml README.md LICENSE-APACHE LICENSE-MIT; do
    grep -qx "$name/$file" <<<"$files" || { echo "error: the package $name has no $file" >&2; exit 1; }
  done
  size=$(stat --format %s "$package")
  [ "$size" -lt 3000000 ] || { echo "error: the package $name has $size bytes" >&2; exit 1; }
  total=$((total + size))
done
echo "packages that can be published: $(ls "$packages"/package/*.crate | wc -l), of $total bytes together"
