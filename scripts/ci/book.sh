#!/usr/bin/env bash
# The built book must contain every picture and page that it links: readers of it do not have the repository.
set -euo pipefail
cd "$(dirname "$0")/../.."
if [ "$(mdbook --version 2>/dev/null)" != "mdbook v0.5.4" ]; then
  cargo install mdbook --version 0.5.4 --locked --no-default-features --root target/mdbook
  PATH=$PWD/target/mdbook/bin:$PATH
fi
mdbook build docs
python3 scripts/ci/interop/book_links.py target/book
