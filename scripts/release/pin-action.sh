#!/usr/bin/env bash
# Lets the action for pull requests download a release instead of building osjitter. Run it after a release, and commit the result:
#
#   scripts/release/pin-action.sh SHA256SUMS    the list of checksums of the release, a file or an address
#
# Users of the action get the release once the branch or tag that they use contains that commit. The action refuses a download with
# another checksum, so that a replaced file in the release has no effect.
set -euo pipefail
cd "$(dirname "$0")/../.."
file=${ACTION_RELEASE_FILE:-.github/actions/gate/release}
[ $# = 1 ] || { echo "usage: scripts/release/pin-action.sh SHA256SUMS" >&2; exit 2; }
case $1 in
  *://*) sums=$(curl --fail --silent --show-error --location "$1") ;;
  *) sums=$(<"$1") ;;
esac
archives=$(grep -E '^[0-9a-f]{64}  osjitter-[0-9][0-9A-Za-z.+]*(-[0-9A-Za-z_]+){3,4}\.(tar\.gz|zip)$' <<<"$sums") ||
  { echo "error: $1 lists no archive of a release" >&2; exit 2; }
versions=$(sed 's/^[0-9a-f]*  osjitter-\([^-]*\)-.*/\1/' <<<"$archives" | sort -u)
[ "$(wc -l <<<"$versions")" = 1 ] || { echo "error: $1 lists several versions:" "${versions//$'\n'/ }" >&2; exit 2; }
{ grep '^#' "$file"; printf 'version %s\n%s\n' "$versions" "$archives"; } >"$file.new"
mv "$file.new" "$file"
echo "$file: $versions, $(wc -l <<<"$archives") archives"
