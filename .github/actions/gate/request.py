"""Reads the request of a gate from a comment such as `/osjitter 1%`, and checks that its author may ask for it.

Sets the outputs `change`, `head`, `target` and `number` if the request is valid, and none otherwise. It runs no code of the pull
request. Environment: GITHUB_EVENT_PATH, the event of the comment; GATE_TOKEN, which needs to read only; GITHUB_REPOSITORY and
the other variables of the runner. Exits with 0 unless the server fails.
"""

import datetime
import json
import os
import pathlib
import re
import sys
import urllib.parse

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import github_api  # noqa: E402, in the directory of this script
from github_api import Refused, call  # noqa: E402

REQUEST = re.compile(r"/osjitter[ \t]+([0-9]{1,3}(?:\.[0-9]{1,4})?)[ \t]*%[ \t]*")
COMMIT = re.compile("[0-9a-f]{40,64}")


class Rejected(Exception):
    """The request is not carried out."""


def parse_change(body):
    """Returns the requested change, for example `1%`; None if the comment is no request."""
    line = (body or "").split("\n", 1)[0].rstrip("\r")
    if not re.match(r"/osjitter(\s|$)", line):
        return None
    request = REQUEST.fullmatch(line)
    if not request or not 0 < float(request.group(1)) <= 100:
        raise Rejected("invalid request: expected for example /osjitter 1%")
    return f"{request.group(1)}%"


def check_author(repository, author):
    path = f"{repository}/collaborators/{urllib.parse.quote(author, safe='')}/permission"
    try:
        permission = call("GET", path).get("permission")
    except Refused as refused:
        if refused.status != 404:
            raise
        permission = "none"
    if permission not in ("admin", "write"):
        raise Rejected(f"{author} may not request a gate: the permission is {permission}, and write is needed")


def check_unchanged(pull, base_name, comment_time):
    """Checks that the pull request is open, and still as the author of the comment saw it."""
    head = pull.get("head") or {}
    head_repository = head.get("repo")
    if pull.get("state") != "open":
        raise Rejected("the pull request is not open")
    if not head_repository:
        raise Rejected("the repository of the pull request was deleted")
    # Who pushes to the repository itself needs no permission of others.
    is_fork = head_repository.get("full_name") != base_name
    if is_fork and parse_time(head_repository["pushed_at"]) > parse_time(comment_time):
        raise Rejected("the fork was pushed to after the comment; look at the changes, and comment again")


def parse_time(text):
    return datetime.datetime.strptime(text, "%Y-%m-%dT%H:%M:%SZ")


def read_request(event):
    """Returns the outputs of a valid request; none if the comment is not one."""
    if not (event.get("issue") or {}).get("pull_request"):
        return {}
    change = parse_change(event["comment"]["body"])
    if change is None:
        return {}
    name = os.environ["GITHUB_REPOSITORY"]
    repository = f"/repos/{name}"
    check_author(repository, event["comment"]["user"]["login"])
    number = int(event["issue"]["number"])
    pull = call("GET", f"{repository}/pulls/{number}")
    check_unchanged(pull, name, event["comment"]["created_at"])
    head, target = pull["head"]["sha"], pull["base"]["ref"]
    if not COMMIT.fullmatch(head) or re.search(r"[\s\x00-\x1f]", target):
        raise Rejected("the pull request has no commit or no target branch")
    return {"change": change, "head": head, "target": target, "number": number}


def main():
    github_api.check_environment("GITHUB_EVENT_PATH", "GATE_TOKEN", "GITHUB_REPOSITORY")
    event = json.loads(pathlib.Path(os.environ["GITHUB_EVENT_PATH"]).read_text(encoding="utf-8"))
    try:
        outputs = read_request(event)
    except Refused as refused:
        sys.exit(f"::error title=Jitter gate::cannot check the request: {refused}")
    except Rejected as rejected:
        print(f"::notice title=Jitter gate::{github_api.printable(str(rejected)).replace('%', '%25')}")
        return
    with open(os.environ["GITHUB_OUTPUT"], "a", encoding="utf-8") as file:
        file.writelines(f"{name}={value}\n" for name, value in outputs.items())
    print("request:", outputs or "none")


if __name__ == "__main__":
    main()
