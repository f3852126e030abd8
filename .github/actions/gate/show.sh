#!/usr/bin/env bash
# Writes a verdict as Markdown into the summary and into a file, and sets the output `comment` to the path of the file. GATE_VERDICT
# is verdict.json, from a job that ran code of the pull request; GATE_OSJITTER is the program.
set -euo pipefail
: "${GATE_OSJITTER:=osjitter}" "${RUNNER_TEMP:=${TMPDIR:-/tmp}}"
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
file=$(mktemp "$RUNNER_TEMP/osjitter-comment.XXXXXX")

# shellcheck source=SCRIPTDIR/messages.sh
. "$here/messages.sh"

if [ ! -e "$GATE_VERDICT" ]; then
  no_verdict "The gate ended without a verdict; its log has the reason." >"$file"
elif ! "$GATE_OSJITTER" report "$GATE_VERDICT" --format markdown >"$file" 2>"$file.error"; then
  no_verdict "The verdict cannot be read: $(<"$file.error")" >"$file"
fi
cat "$file" >>"${GITHUB_STEP_SUMMARY:-/dev/null}"
echo "comment=$file" >>"${GITHUB_OUTPUT:-/dev/null}"
