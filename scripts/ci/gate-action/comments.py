#!/usr/bin/env python3
"""The action must keep one comment per pull request, and carry out only requests of people who may ask for a gate.

Plays the situations against a server that behaves like GitHub's API, on this machine. Argument: the osjitter of the gates whose
verdicts are commented. Takes a minute; needs only Python and bash.
"""

import http.server
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import urllib.parse

ACTION = pathlib.Path(__file__).resolve().parents[3] / ".github/actions/gate"
REPOSITORY = "owner/project"
BOT = {"login": "github-actions[bot]", "type": "Bot"}
HEAD = "0123456789abcdef0123456789abcdef01234567"


class GitHub(http.server.ThreadingHTTPServer):
    """A server with the comments of one pull request. `refusals` maps methods to the statuses of their next answers."""

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Handler)
        self.comments, self.requests, self.refusals = [], [], {}
        self.permissions, self.pull, self.user = {}, {}, None
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def add(self, body, user):
        comment = {"id": 1000 + len(self.comments), "body": body, "user": user}
        comment["html_url"] = f"https://github.com/{REPOSITORY}/pull/7#issuecomment-{comment['id']}"
        self.comments.append(comment)
        return comment


class Handler(http.server.BaseHTTPRequestHandler):
    def answer(self, status, value):
        data = json.dumps(value).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def handle_request(self):
        length = int(self.headers.get("Content-Length") or 0)
        body = json.loads(self.rfile.read(length)) if length else None
        self.server.requests.append(f"{self.command} {self.path}")
        statuses = self.server.refusals.get(self.command, [])
        if statuses:
            # The last status is that of all later answers, unless it is None.
            status = statuses.pop(0) if len(statuses) > 1 else statuses[0]
            if status is not None:
                self.answer(status, {"message": "Resource not accessible by integration"})
                return
        if self.headers.get("Authorization") != "Bearer secret":
            self.answer(401, {"message": "Bad credentials"})
            return
        self.answer(*self.result(body))

    do_GET = do_POST = do_PATCH = handle_request

    def result(self, body):
        url = urllib.parse.urlsplit(self.path)
        query = urllib.parse.parse_qs(url.query)
        root = f"/repos/{REPOSITORY}"
        comments = self.server.comments
        if url.path == f"{root}/issues/7/comments" and self.command == "GET":
            size, page = int(query["per_page"][0]), int(query["page"][0])
            return 200, comments[(page - 1) * size:page * size]
        if url.path == f"{root}/issues/7/comments" and self.command == "POST":
            return 201, self.server.add(body["body"], self.server.user or BOT)
        if self.command == "PATCH":
            for comment in comments:
                if url.path == f"{root}/issues/comments/{comment['id']}":
                    comment["body"] = body["body"]
                    return 200, comment
        if url.path == "/user" and self.server.user:
            return 200, self.server.user
        permission = re.fullmatch(rf"{root}/collaborators/([^/]+)/permission", url.path)
        if permission and permission.group(1) in self.server.permissions:
            return 200, {"permission": self.server.permissions[permission.group(1)]}
        if url.path == f"{root}/pulls/7":
            return 200, self.server.pull
        return 404, {"message": "Not Found"}

    def log_message(self, *_):
        pass


def check(condition, message):
    if not condition:
        sys.exit(f"gate-action: comments: line {sys._getframe(1).f_lineno}: {message}")


class Runner:
    """Runs scripts of the action as the runner does."""

    def __init__(self, work, osjitter):
        self.work = pathlib.Path(work)
        self.osjitter = osjitter
        self.github = GitHub()

    def run(self, command, **variables):
        output = self.work / "output"
        output.write_text("")
        environment = {
            "PATH": os.environ["PATH"], "GITHUB_API_URL": f"http://127.0.0.1:{self.github.server_port}",
            "GITHUB_SERVER_URL": "https://github.com", "GITHUB_REPOSITORY": REPOSITORY, "GITHUB_RUN_ID": "100",
            "GITHUB_OUTPUT": str(output), "GATE_TOKEN": "secret", **variables,
        }
        self.github.requests.clear()
        ran = subprocess.run(command, cwd=self.work, env=environment, capture_output=True, text=True, timeout=120, check=False)
        check(not ran.stderr.startswith("Traceback"), ran.stderr)
        return ran, dict(line.split("=", 1) for line in output.read_text().splitlines())

    def comment(self, text, run=100, name="osjitter-gate", command=None, **variables):
        """Runs comment.sh, which never fails, and returns its output."""
        file = self.work / "comment.md"
        file.write_text(text)
        variables = {"GATE_COMMENT": str(file), "GATE_COMMENT_NAME": name, "GATE_PULL_REQUEST": "7", "GATE_HEAD": HEAD,
                     "GITHUB_RUN_ID": str(run), **variables}
        ran, _ = self.run(command or ["bash", str(ACTION / "comment.sh")], **variables)
        check(ran.returncode == 0, f"exit code {ran.returncode}: {ran.stderr}")
        return ran.stdout

    def writes(self):
        return [request for request in self.github.requests if not request.startswith("GET")]

    def request(self, body, author="maintainer", **event):
        """Runs request.py and returns its output and the outputs that it sets."""
        event = {"issue": {"number": 7, "pull_request": {"url": "https://api.github.com/repos/owner/project/pulls/7"}}, **event}
        event["comment"] = {"body": body, "user": {"login": author}, "created_at": "2026-11-25T12:00:00Z"}
        file = self.work / "event.json"
        file.write_text(json.dumps(event))
        ran, outputs = self.run([sys.executable, "-IB", str(ACTION / "request.py")], GITHUB_EVENT_PATH=str(file))
        return ran, outputs


def comment_is_created_and_updated(runner):
    comments = runner.github.comments
    for number in range(150):
        runner.github.add(f"remark {number}", {"login": "someone", "type": "User"})
    check("comment created" in runner.comment("### Jitter gate: pass\n\n| p50 | +1.0 % |"), "not created")
    own = comments[-1]
    check(len(comments) == 151 and "| p50 | +1.0 % |" in own["body"], own)
    check(own["body"].startswith("<!-- osjitter-gate:osjitter-gate run:100 -->\n"), own)
    check(f"Commit {HEAD[:12]}." in own["body"] and "owner/project/actions/runs/100" in own["body"], own)
    # It is found on the second page, and updated in place.
    check("comment updated" in runner.comment("### Jitter gate: regressed", run=101), "not updated")
    check(len(comments) == 151 and "regressed" in own["body"] and "p50" not in own["body"], own)
    check(runner.writes() == [f"PATCH /repos/{REPOSITORY}/issues/comments/{own['id']}"], runner.github.requests)
    # A run that ends late does not replace the verdict of a later one.
    check("a later run" in runner.comment("### Jitter gate: pass", run=99), "an old run has commented")
    check("regressed" in own["body"] and not runner.writes(), own)
    # Another gate of the same pull request has its own comment.
    check("comment created" in runner.comment("### Jitter gate: pass", name="a gate --> of 2 ms"), "no second comment")
    check(comments[-1]["body"].startswith("<!-- osjitter-gate:a%20gate%20--%3E%20of%202%20ms run:100 -->\n"), comments[-1])


def comments_of_others_are_kept(runner):
    copied = "<!-- osjitter-gate:osjitter-gate run:1 -->\n### Jitter gate: pass"
    other = runner.github.add(copied, {"login": "someone", "type": "User"})
    check("comment created" in runner.comment("### Jitter gate: regressed"), "not created")
    check(other["body"] == copied and len(runner.github.comments) == 2, "the comment of another user was changed")
    # A personal token has a user.
    runner.github.comments.clear()
    runner.github.user = {"login": "a-person", "type": "User"}
    check("comment created" in runner.comment("first"), "not created")
    check("comment updated" in runner.comment("second"), "not updated")
    check(len(runner.github.comments) == 1, runner.github.comments)


def text_is_harmless(runner):
    runner.comment("by @someone and os-interval@200us")
    body = runner.github.comments[-1]["body"]
    check("@someone" not in body and "os-interval@200us" in body, body)
    runner.comment("### Jitter gate: no verdict\n\n`````text\n" + "x" * 200_000)
    body = runner.github.comments[-1]["body"]
    check(len(body) < 65_536 and "The summary of the job has the rest" in body, len(body))


def refusals_leave_the_summary(runner):
    for refusals in ({"GET": [403]}, {"POST": [403]}, {"GET": [404]}, {"GET": [401]}):
        runner.github.refusals = refusals
        printed = runner.comment("### Jitter gate: pass")
        check("no comment: the token may not write comments (40" in printed, printed)
        check("the summary of the job has the verdict" in printed and not runner.github.comments, printed)
    runner.github.refusals = {}
    runner.comment("### Jitter gate: pass")
    runner.github.refusals = {"PATCH": [403]}
    printed = runner.comment("### Jitter gate: regressed")
    check("may not write comments (403" in printed and len(runner.github.comments) == 1, printed)


def failures_of_the_server_are_retried(runner):
    runner.github.refusals = {"GET": [502, None]}
    check("comment created" in runner.comment("### Jitter gate: pass"), "not retried")
    check(len(runner.github.comments) == 1, runner.github.comments)
    runner.github.refusals = {"GET": [500]}
    printed = runner.comment("### Jitter gate: pass")
    check("no comment: 500: Resource" in printed and len(runner.github.requests) == 3, printed)
    printed = runner.comment("### Jitter gate: pass", GITHUB_API_URL="http://127.0.0.1:9")
    check("no comment: " in printed and "Connection refused" in printed, printed)
    check("no comment: missing GATE_PULL_REQUEST" in runner.comment("x", GATE_PULL_REQUEST=""), "no reason")


def python_is_optional(runner):
    bin_directory = runner.work / "bin"
    bin_directory.mkdir()
    for program in ("bash", "dirname"):
        (bin_directory / program).symlink_to(shutil.which(program))
    printed = runner.comment("### Jitter gate: pass", command=[str(bin_directory / "bash"), str(ACTION / "comment.sh")],
                             PATH=str(bin_directory))
    check("python3 is not installed; the summary of the job has the verdict" in printed, printed)


def pull_request(full_name="someone/project", pushed_at="2026-11-25T11:00:00Z", **fields):
    head = {"sha": HEAD, "repo": {"full_name": full_name, "pushed_at": pushed_at}}
    return {"state": "open", "head": head, "base": {"ref": "main"}, **fields}


def requests_need_permission(runner):
    github = runner.github
    github.permissions = {"maintainer": "write", "owner": "admin", "reader": "read"}
    github.pull = pull_request()
    for author in ("maintainer", "owner"):
        ran, outputs = runner.request("/osjitter 1%\r\n\r\nplease", author)
        check(outputs == {"change": "1%", "head": HEAD, "target": "main", "number": "7"}, ran)
    for author, reason in (("reader", "the permission is read"), ("stranger", "the permission is none"), ("../x", "none")):
        ran, outputs = runner.request("/osjitter 1%", author)
        check(ran.returncode == 0 and not outputs and reason in ran.stdout, ran.stdout)
        check(not any("pulls" in request for request in github.requests), github.requests)
    # The server decides about permissions; without it, nothing runs.
    github.refusals = {"GET": [403]}
    ran, outputs = runner.request("/osjitter 1%")
    check(ran.returncode == 1 and not outputs and "cannot check the request" in ran.stderr, ran.stderr)
    github.refusals = {}


def only_requests_are_read(runner):
    github = runner.github
    github.permissions, github.pull = {"maintainer": "write"}, pull_request()
    for body in ("/osjitter 0.5 %", "/osjitter\t12.25%"):
        _, outputs = runner.request(body)
        check(outputs["change"] == re.sub(r"[^0-9.%]", "", body), outputs)
    for body in ("looks good", "see /osjitter 1%", "/osjitters 1%", ""):
        ran, outputs = runner.request(body)
        check(ran.returncode == 0 and not outputs and not github.requests and "::" not in ran.stdout, ran.stdout)
    for arguments in ("", " 1", " 1%; id", " $(id)%", " 0%", " 101%", " 1%%"):
        body = f"/osjitter{arguments}"
        ran, outputs = runner.request(body)
        check(ran.returncode == 0 and not outputs and not github.requests, body)
        check("::notice title=Jitter gate::invalid request: expected for example /osjitter 1%25" in ran.stdout, ran.stdout)
    _, outputs = runner.request("/osjitter 1%", issue={"number": 7})
    check(not outputs and not github.requests, "an issue is no pull request")


def pull_requests_must_be_unchanged(runner):
    github = runner.github
    github.permissions = {"maintainer": "write"}
    late = "2026-11-25T12:00:01Z"
    # Who pushes to the repository itself has the permission.
    github.pull = pull_request(REPOSITORY, late)
    check(runner.request("/osjitter 1%")[1]["head"] == HEAD, "refused")
    for pull, reason in (
        (pull_request(pushed_at=late), "pushed to after the comment"),
        (pull_request(state="closed"), "not open"),
        (pull_request(head={"sha": HEAD, "repo": None}), "was deleted"),
        (pull_request(base={"ref": "main\nhead=evil"}), "no target branch"),
    ):
        github.pull = pull
        ran, outputs = runner.request("/osjitter 1%")
        check(ran.returncode == 0 and not outputs and reason in ran.stdout, ran.stdout)


def write_program(path, body):
    """Writes a program that reports a rate."""
    header = "osjitter.series/1\\nmetric rate req/s higher\\nrate "
    path.write_text(f'#!/bin/sh\n{body}\nprintf "{header}$rate\\n" >"$OSJITTER_OUT"\n')
    path.chmod(0o755)


def verdicts_are_commented(runner):
    """A pull request from its first push to its last, with the verdicts of real gates."""
    write_program(runner.work / "base", "rate=100")
    write_program(runner.work / "same", "rate=100")
    write_program(runner.work / "slow", "rate=80")
    # Real noise would end in another verdict now and then, so the two sides take turns at being faster.
    for name, first in (("noisy", 0), ("noise", 1)):
        count = 'n=$(cat "$0.count" 2>/dev/null || echo 0)\necho $((n + 1)) >"$0.count"'
        write_program(runner.work / name, f"{count}\nrate=$(((n + {first}) % 2 * 240 + 60))")
    comments = runner.github.comments
    for run, base, candidate, words in (
        (100, "base", "same", ("Jitter gate: pass", "| interval |", "| pass |", "is within")),
        (101, "base", "slow", ("Jitter gate: regressed", "-20.0 %", "exceeds -5.0 %")),
        (102, "noise", "noisy", ("Jitter gate: inconclusive", "may or may not exceed -5.0 %")),
    ):
        ran, outputs = runner.run(
            ["bash", str(ACTION / "gate.sh")], GATE_OSJITTER=runner.osjitter, RUNNER_TEMP=str(runner.work),
            GATE_BASELINE_CMD=str(runner.work / base), GATE_CANDIDATE_CMD=str(runner.work / candidate),
            GATE_ARGS="--metric=rate\n--max-pairs=24",
        )
        check(ran.returncode == (candidate == "slow"), ran.stderr)
        runner.comment(pathlib.Path(outputs["comment"]).read_text(), run)
        text = " ".join(comments[0]["body"].split())
        check(len(comments) == 1 and f"run:{run} -->" in text, comments)
        check(all(word in text for word in words), text)
    # The job that comments on a request has only the file of the verdict.
    shown, shown_outputs = runner.run(["bash", str(ACTION / "show.sh")], GATE_OSJITTER=runner.osjitter, RUNNER_TEMP=str(runner.work),
                                      GATE_VERDICT=outputs["file"])
    check(shown.returncode == 0 and "Jitter gate: inconclusive" in pathlib.Path(shown_outputs["comment"]).read_text(), shown.stderr)
    for content, words in ((None, "ended without a verdict"), ("{}", "The verdict cannot be read")):
        file = runner.work / "forged.json"
        if content:
            file.write_text(content)
        shown, shown_outputs = runner.run(["bash", str(ACTION / "show.sh")], GATE_OSJITTER=runner.osjitter,
                                          RUNNER_TEMP=str(runner.work), GATE_VERDICT=str(file))
        check(shown.returncode == 0 and words in pathlib.Path(shown_outputs["comment"]).read_text(), shown.stderr)


def values_of_actions_are_plain(_runner):
    """A colon and a space in a value without quotes is an error of YAML."""
    for file in (ACTION / "action.yml", *ACTION.glob("*/action.yml")):
        for line in file.read_text().splitlines():
            value = re.match(r"[ -]*[\w-]+: (?![\"'>|])(.*)", line)
            check(not value or ": " not in value.group(1), f"{file}: {line}")


SITUATIONS = (
    comment_is_created_and_updated, comments_of_others_are_kept, text_is_harmless, refusals_leave_the_summary,
    failures_of_the_server_are_retried, python_is_optional, requests_need_permission, only_requests_are_read,
    pull_requests_must_be_unchanged, verdicts_are_commented, values_of_actions_are_plain,
)


def main():
    osjitter = os.path.abspath(sys.argv[1])
    for situation in SITUATIONS:
        with tempfile.TemporaryDirectory() as work:
            situation(Runner(work, osjitter))
    print(f"gate-action: {len(SITUATIONS)} situations of comments and requests")


if __name__ == "__main__":
    main()
