"""Requests to GitHub's API, for the scripts of the action."""

import json
import os
import re
import time
import urllib.error
import urllib.request

TIMEOUT = 20
RETRY_DELAYS = (1, 3)
# The answers of an overloaded server, and of a network between.
TRANSIENT = (429, 500, 502, 503, 504)


class Refused(Exception):
    """The server refuses a request. `status` is the HTTP status, or None without an answer."""

    def __init__(self, status, reason):
        super().__init__(f"{status}: {reason}" if status else str(reason))
        self.status = status


def check_environment(*names):
    missing = [name for name in names if not os.environ.get(name)]
    if missing:
        raise Refused(None, f"missing {', '.join(missing)}")


def call(method, path, body=None):
    """Returns the JSON of an answer. Retries if the server is overloaded or the network fails."""
    for delay in (*RETRY_DELAYS, None):
        try:
            return _call_once(method, path, body)
        except Refused as refused:
            if delay is None or (refused.status is not None and refused.status not in TRANSIENT):
                raise
            time.sleep(delay)


def _call_once(method, path, body):
    server = os.environ.get("GITHUB_API_URL") or "https://api.github.com"
    request = urllib.request.Request(
        server.rstrip("/") + path,
        method=method,
        data=None if body is None else json.dumps(body).encode(),
        headers={
            "Accept": "application/vnd.github+json",
            "Authorization": f"Bearer {os.environ.get('GATE_TOKEN', '')}",
            "Content-Type": "application/json",
            "User-Agent": "osjitter-gate",
            "X-GitHub-Api-Version": "2022-11-28",
        },
    )
    try:
        with urllib.request.urlopen(request, timeout=TIMEOUT) as answer:
            return json.load(answer)
    except urllib.error.HTTPError as error:
        raise Refused(error.code, _message(error)) from None
    except (OSError, ValueError) as error:
        raise Refused(None, error) from None


def _message(error):
    try:
        text = str(json.load(error)["message"])
    except (OSError, ValueError, KeyError, TypeError):
        text = str(error.reason)
    return printable(text)


def printable(text):
    """Returns a text in one line that cannot be a command of the runner."""
    return re.sub(r"[^ -~]", " ", text).replace("::", ": :")[:500]
