"""Writes the verdict of a gate into one comment of a pull request, which later runs update in place.

A hidden line at the beginning of the comment identifies it: the name of the gate, and the run that wrote it. Comments of others
are never changed, whatever they contain, and neither is one that a later run has written.

Environment: GATE_COMMENT is a file with the Markdown, GATE_COMMENT_NAME the name of the gate, GATE_PULL_REQUEST the number of the
pull request, and GATE_TOKEN the token; GITHUB_REPOSITORY and the other variables of the runner. Always exits with 0, because
the summary of the job has the verdict as well: a pull request of a fork has no permission to comment.
"""

import os
import pathlib
import re
import sys
import urllib.parse

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import github_api  # noqa: E402, in the directory of this script
from github_api import Refused, call  # noqa: E402

MARKER = re.compile(r"<!-- osjitter-gate:(\S+) run:(\d+) -->")
# GitHub allows 65,536.
MAX_LENGTH = 60_000
MAX_PAGES = 50
PAGE_SIZE = 100


def gate_name():
    # A name cannot end the hidden line.
    return urllib.parse.quote(os.environ.get("GATE_COMMENT_NAME") or "osjitter-gate", safe="")


def run_number():
    return int(os.environ.get("GITHUB_RUN_ID") or 0)


def compose():
    """Returns the text of the comment."""
    text = pathlib.Path(os.environ["GATE_COMMENT"]).read_text(encoding="utf-8", errors="replace")
    # The name of a program must not notify a user.
    text = re.sub(r"(?<!\w)@(?=\w)", "@\u200b", text).rstrip()
    marker = f"<!-- osjitter-gate:{gate_name()} run:{run_number()} -->"
    if len(text) > MAX_LENGTH:
        # The cut may be inside of a code block, so nothing follows it.
        return f"{marker}\n{footer()} The summary of the job has the rest of this.\n\n{text[:MAX_LENGTH]}\n"
    return f"{marker}\n{text}\n\n{footer()}\n"


def footer():
    server = os.environ.get("GITHUB_SERVER_URL") or "https://github.com"
    repository = os.environ["GITHUB_REPOSITORY"]
    head = os.environ.get("GATE_HEAD", "")
    commit = f"Commit {head[:12]}. " if re.fullmatch("[0-9a-f]{40,64}", head) else ""
    run = f"[Log of the job]({server}/{repository}/actions/runs/{run_number()})."
    return f"<sub>{commit}{run} Later runs update this comment.</sub>"


def find_comment(comments_path):
    """Returns the comment of this gate and the run that wrote it, or None."""
    for page in range(1, MAX_PAGES + 1):
        comments = call("GET", f"{comments_path}?per_page={PAGE_SIZE}&page={page}")
        for comment in comments:
            marker = MARKER.match(comment.get("body") or "")
            if marker and marker.group(1) == gate_name() and is_own(comment):
                return comment, int(marker.group(2))
        if len(comments) < PAGE_SIZE:
            return None
    return None


def is_own(comment):
    """Returns whether the comment was written with a token like this one. Anybody can copy the hidden line."""
    user = comment.get("user") or {}
    return user.get("type") == "Bot" or (user.get("login") is not None and user.get("login") == own_login())


def own_login():
    # The token of a job has no user; a personal one has.
    try:
        return call("GET", "/user").get("login")
    except Refused:
        return None


def write_comment():
    """Creates or updates the comment and returns what was done."""
    github_api.check_environment("GATE_COMMENT", "GATE_PULL_REQUEST", "GATE_TOKEN", "GITHUB_REPOSITORY")
    repository = f"/repos/{os.environ['GITHUB_REPOSITORY']}"
    comments_path = f"{repository}/issues/{int(os.environ['GATE_PULL_REQUEST'])}/comments"
    body = {"body": compose()}
    found = find_comment(comments_path)
    if found is None:
        created = call("POST", comments_path, body)
        return f"comment created: {created.get('html_url')}"
    comment, writer = found
    if writer > run_number():
        return "no comment: a later run has already written it"
    updated = call("PATCH", f"{repository}/issues/comments/{int(comment['id'])}", body)
    return f"comment updated: {updated.get('html_url')}"


def main():
    try:
        print(github_api.printable(write_comment()))
    except Refused as refused:
        reason = f"{refused}"
        if refused.status in (401, 403, 404):
            reason = f"the token may not write comments ({refused}), as in a pull request of a fork"
        print(f"no comment: {reason}; the summary of the job has the verdict")


if __name__ == "__main__":
    main()
