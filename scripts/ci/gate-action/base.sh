#!/usr/bin/env bash
# The action must compare a candidate with the commit from which it differs by the change under test only.
set -euo pipefail
cd "$(dirname "$0")/../../.."
# Runs the choice of the base on repositories made for the test. Takes seconds; needs only git.
script=$PWD/.github/actions/gate/base.sh
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
unset GITHUB_EVENT_NAME GITHUB_BASE_REF GITHUB_SHA # of the job that runs this test
export GIT_CONFIG_GLOBAL=$work/config GIT_CONFIG_NOSYSTEM=1
git config --global user.name test
git config --global user.email test@localhost
git config --global init.defaultBranch main
git config --global advice.detachedHead false

die() {
  printf 'gate-action: base: %s\n' "$*" >&2
  exit 1
}

# A history is made of commits whose tags are their names.
new_history() { # name
  git init --quiet "$work/$1"
  cd "$work/$1"
}
commit() { # name...
  local name
  for name in "$@"; do
    git commit --quiet --allow-empty -m "$name"
    git tag "$name"
  done
}
merge() { # name, commit...
  git merge --quiet --no-ff -m "$1" "${@:2}" >/dev/null 2>&1
  git tag "$1"
}
branch() { git checkout --quiet -b "$1" "$2"; } # name, start
# Checks a commit out like actions/checkout does: detached.
at() { git checkout --quiet --detach "$1"; }
id() { git -C "$work/history" rev-parse "$1"; }

choose() { # NAME=VALUE...
  env "$@" bash "$script"
}
expect() { # commit, NAME=VALUE...
  local line
  line=$(choose "${@:2}" 2>&1) || die "line ${BASH_LINENO[0]}: expected $1, got: $line"
  [ "${line%% *}" = "$(id "$1")" ] || die "line ${BASH_LINENO[0]}: expected $1 ($(id "$1")), got: $line"
}
refuse() { # text, NAME=VALUE...
  local code=0 text
  text=$(choose "${@:2}" 2>&1) || code=$?
  [ "$code" != 0 ] || die "line ${BASH_LINENO[0]}: expected a refusal with '$1', got: $text"
  [[ $text == *"$1"* ]] || die "line ${BASH_LINENO[0]}: expected '$1', got: $text"
}
# The variables of an event. Pull requests: base and head of the payload.
pull_request() { event=(GITHUB_EVENT_NAME=pull_request GITHUB_BASE_REF=main GATE_TARGET=main "GATE_BASE=$(id "$1")" "GATE_HEAD=$(id "$2")"); }
push() { event=(GITHUB_EVENT_NAME=push "GATE_BASE=$(id "$1")" GATE_DEFAULT_BRANCH=main); }

new_history history
commit m0 m1
branch pr m1
commit p1 p2
git checkout --quiet main
commit m2 m3

# The merge commit of a pull request, made on a newer main than the one of the payload.
at m3
merge pr-merge pr
pull_request m1 p2
expect m3 "${event[@]}"
expect m3 "${event[@]}" GITHUB_SHA="$(id pr-merge)"
expect m3 GATE_BASE="$(id m1)"
expect m3 GATE_BASE="$(id m3)"
# A step of the job has made a commit.
commit stamp
expect m3 "${event[@]}"

# The head of a pull request.
at p2
pull_request m3 p2
expect m1 "${event[@]}"
expect m1 GATE_BASE="$(id m3)"
# The event of a comment names neither commits nor branches; the target branch is an input.
expect m1 GITHUB_EVENT_NAME=issue_comment GATE_DEFAULT_BRANCH=main GATE_TARGET=main
refuse 'set base' GITHUB_EVENT_NAME=issue_comment GATE_DEFAULT_BRANCH=main

# Its branch was merged with main, or rebased onto it, after the payload's base.
branch updated p2
merge update m3
commit p3
pull_request m1 p3
expect m3 "${event[@]}"
expect m3 GATE_BASE="$(id m3)"
at update
pull_request m1 update
expect m3 "${event[@]}"
expect m3 GATE_BASE="$(id m2)"
branch rebased m3
commit r1 r2
pull_request m1 r2
expect m3 "${event[@]}"

# A merge within the branch, newer than the payload's head.
branch topic m1
commit t1
branch with-topic t1
merge topic-merge p2
pull_request m3 p2
expect m1 "${event[@]}" GITHUB_SHA="$(id pr-merge)"

# More than two parents.
branch octopus m3
merge many topic pr
pull_request m1 p2
expect m3 "${event[@]}"
expect m3 GATE_BASE="$(id m1)"

# Merge queues test all of their pull requests, and pushes all of their commits.
branch queue m3
merge queued-1 pr
merge queued-2 topic
expect m3 GITHUB_EVENT_NAME=merge_group GATE_BASE="$(id m3)"
push m1
expect m1 "${event[@]}"
at m3
expect m1 "${event[@]}"
# The pushed branch was rewritten, or is new.
at r2
push p2
expect m3 "${event[@]}"
refuse 'set base' "${event[@]}" GATE_DEFAULT_BRANCH=
zero=0000000000000000000000000000000000000000
expect m3 "${event[@]}" GATE_BASE=$zero
refuse "fatal: Not a valid commit name $zero" "${event[@]}" GATE_BASE=$zero GATE_DEFAULT_BRANCH=
refuse "fatal: Not a valid commit name $zero" GATE_BASE=$zero

# The base branch contains earlier commits of the head.
git checkout --quiet -B main m3
merge part p1
pull_request m3 p2
at p2
expect p1 "${event[@]}"
at part
merge part-merge pr
expect part "${event[@]}"
# The branches were merged into each other, so the head has no single base.
branch crosswise p2
merge back m3
commit p4
pull_request m3 p4
refuse 'more than one merge base' "${event[@]}"
at part
merge crosswise-merge p4
expect part "${event[@]}"

# The target branch contains the head in the meantime.
at p1
pull_request m1 p1
refuse 'already a part of main' "${event[@]}"
git checkout --quiet -B main m3

# The input always wins, if it is a commit.
at pr-merge
pull_request m1 p2
expect m0 "${event[@]}" GATE_BASE_INPUT=m0
expect t1 "${event[@]}" GATE_BASE_INPUT=topic
refuse 'Not a valid object name no-such' "${event[@]}" GATE_BASE_INPUT=no-such
refuse 'invalid base' "${event[@]}" GATE_BASE_INPUT=--all
refuse 'invalid base' "${event[@]}" GATE_BASE_INPUT=main:refs/heads/forged
# There is no base, or git fails.
refuse 'the event schedule names none; set base' GITHUB_EVENT_NAME=schedule
refuse 'Not a valid commit name 0123' GATE_BASE=0123456789012345678901234567890123456789
refuse 'dubious ownership' "${event[@]}" GIT_TEST_ASSUME_DIFFERENT_OWNER=1
git checkout --quiet --orphan alone
commit alone
push m1
refuse 'no common commit' "${event[@]}"
cd "$work"
refuse 'not a git repository' "${event[@]}"

# A graft or a replacement pretends that the branch starts earlier.
git clone --quiet "file://$work/history" grafts
cd grafts
at p2
git replace --graft "$(id p1)" "$(id m0)"
pull_request m3 p2
expect m1 "${event[@]}"
git replace -d "$(id p1)" >/dev/null
echo "$(id p1) $(id m0)" >.git/info/grafts
expect m1 "${event[@]}"

# Clones without the whole history: checkout NAME DEPTH COMMIT. The clone has the remote-tracking branches of its depth.
checkout() {
  git init --quiet "$work/$1"
  cd "$work/$1"
  git remote add origin "file://$work/history"
  git fetch --quiet --no-tags --depth "$2" origin "$(id "$3")"
  at FETCH_HEAD
}
for depth in 1 2 3; do
  checkout "merge-$depth" $depth pr-merge
  pull_request m1 p2
  expect m3 "${event[@]}" GITHUB_SHA="$(id pr-merge)"
  expect m3 GATE_BASE="$(id m1)"
  checkout "head-$depth" $depth p2
  expect m1 "${event[@]}"
  checkout "pushed-$depth" $depth m3
  push m1
  expect m1 "${event[@]}"
  checkout "octopus-$depth" $depth many
  pull_request m1 p2
  expect m3 "${event[@]}"
done
checkout stamped 1 pr-merge
git commit --quiet --allow-empty -m stamp
pull_request m1 p2
expect m3 "${event[@]}"
# There is no remote, or it cannot be reached.
checkout cut 1 p2
git remote set-url origin "file://$work/nowhere"
refuse "nowhere' does not appear to be a git repository" "${event[@]}"
git remote remove origin
refuse 'no remote' "${event[@]}"
checkout cut-merge 1 pr-merge
git remote remove origin
refuse 'no remote' "${event[@]}"
# No remote is needed if the history suffices, and history is never cut off.
checkout parents 2 pr-merge
git remote remove origin
expect m3 GATE_BASE="$(id m3)"
expect m3 "${event[@]}"
checkout enough 3 r2
git fetch --quiet --depth 2 origin main:refs/remotes/origin/main
git remote remove origin
pull_request m3 r2
expect m3 "${event[@]}" GATE_TARGET= GITHUB_BASE_REF=
checkout deep 4 r2
before=$(git rev-list --count HEAD)
expect m3 "${event[@]}"
[ "$(git rev-list --count HEAD)" -ge "$before" ] || die "the choice has cut history off"

# In a shallow clone, a short way leads to an older common commit than the merge base, which is behind a long way.
cd "$work/history"
branch old-head m0
commit s1
branch old-main m0
commit s2
branch long m3
commit l1 l2 l3 l4
merge head s1
git checkout --quiet -B main m3
commit k1 k2 k3 k4
merge newest s2
checkout misleading 3 head
git fetch --quiet --no-tags --depth 3 origin main:refs/remotes/origin/main
[ "$(git merge-base HEAD origin/main)" = "$(id m0)" ] || die "git finds the merge base in the shallow clone"
pull_request newest head
expect m3 "${event[@]}"
expect m3 GATE_BASE="$(id newest)"

# A partial clone fetches what it needs. main is back at its place in the story.
cd "$work/history"
git checkout --quiet -B main m3
git config uploadpack.allowFilter true
for filter in blob:none tree:0; do
  git clone --quiet --no-checkout --filter "$filter" "file://$work/history" "$work/partial-$filter"
  cd "$work/partial-$filter"
  at p2
  pull_request m3 p2
  expect m1 "${event[@]}"
done

# The fork of a pull request has an old main.
git init --quiet --bare "$work/fork"
git -C "$work/fork" fetch --quiet --no-tags "$work/history" m1:refs/heads/main pr:refs/heads/pr rebased:refs/heads/rebased
git clone --quiet "file://$work/fork" "$work/fork-clone"
cd "$work/fork-clone"
at origin/rebased
pull_request m3 r2
expect m3 "${event[@]}"
at origin/pr
pull_request update p2
refuse 'not our ref' "${event[@]}"
echo "gate-action: base: the base is the right one in every situation"
