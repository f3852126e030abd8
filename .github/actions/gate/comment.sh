#!/usr/bin/env bash
# Writes the verdict into the comment of the pull request, if this job can. It never fails: the summary has the verdict as well.
# comment.py describes the variables.
set -uo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
if ! python3 -c '' 2>/dev/null; then
  echo "no comment: python3 is not installed; the summary of the job has the verdict"
  exit 0
fi
# -I: no module of the pull request's checkout is imported.
python3 -IB "$here/comment.py" || echo "no comment; the summary of the job has the verdict"
exit 0
