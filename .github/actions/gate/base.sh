#!/usr/bin/env bash
# Chooses the commit to compare HEAD with, so that the two differ by the change under test and nothing else. Prints the commit
# and the reason for the choice. If there is no such commit, exits with a code other than 0, and stderr has the reason.
#
# GATE_BASE_INPUT is the input `base`. The other variables are parts of the event: GATE_BASE is the commit that it names as
# the base, GATE_HEAD and GATE_TARGET are the head and the target branch of a pull request, and GATE_DEFAULT_BRANCH is the
# default branch of the repository. GATE_TARGET may also be the input `target`, for an event that names no pull request. The
# README has the rules as a table.
set -euo pipefail

: "${GATE_BASE_INPUT:=}" "${GATE_BASE:=}" "${GATE_HEAD:=}" "${GATE_DEFAULT_BRANCH:=}" "${GITHUB_EVENT_NAME:=}"
: "${GATE_TARGET:=${GITHUB_BASE_REF:-}}"
# A replaced or grafted commit has other parents than on the remote.
export GIT_NO_REPLACE_OBJECTS=1 GIT_GRAFT_FILE=/nonexistent GIT_TERMINAL_PROMPT=0

fail() {
  printf '%s\n' "$1" >&2
  exit 2
}

# Prints the result: choose COMMIT REASON
choose() {
  printf '%s %s\n' "$1" "$2"
  exit 0
}

is_shallow() { [ "$(git rev-parse --is-shallow-repository)" = true ]; }

# Fetches refs from the remote; the default is all branches. A shallow clone also gets more of their history, either a number
# of commits or all of it. Sets $reason if it fails: fetch COMMITS|all [REF]...
fetch() {
  local more=$1 depth=()
  shift
  if [ -z "$remote" ]; then
    reason="the repository has no remote"
    return 1
  fi
  if is_shallow && [ "$more" = all ]; then
    depth=(--unshallow)
  elif is_shallow; then
    # A depth below the present one would cut history off.
    depth=(--depth="$(($(git rev-list --count --all HEAD) + more))")
  fi
  # Maintenance continues in the background, where it would disturb the measurement.
  reason=$(git -c gc.auto=0 -c maintenance.auto=false fetch --quiet --no-tags --no-recurse-submodules \
    ${depth[@]+"${depth[@]}"} "$remote" "$@" 2>&1 </dev/null)
}

# Prints the full name of a commit, and fetches it if the clone lacks it: find_commit NAME
find_commit() {
  case $1 in -* | *:*) fail "invalid base '$1': expected a commit, a branch or a tag" ;; esac
  git rev-parse --quiet --verify "$1^{commit}" 2>/dev/null ||
    git rev-parse --quiet --verify "refs/remotes/$remote/$1^{commit}" 2>/dev/null ||
    { fetch 1 "$1" && git rev-parse --quiet --verify 'FETCH_HEAD^{commit}'; } ||
    fail "$(git merge-base "$1" HEAD 2>&1); cannot fetch it: $reason; check out with fetch-depth: 0"
}

# Prints the newest commit of a branch that is available: find_branch NAME
find_branch() {
  if fetch 1 "refs/heads/$1"; then
    git rev-parse 'FETCH_HEAD^{commit}'
    return
  fi
  git rev-parse --quiet --verify "refs/remotes/$remote/$1^{commit}" 2>/dev/null ||
    git rev-parse --quiet --verify "refs/heads/$1^{commit}" 2>/dev/null ||
    fail "cannot fetch the branch $1: $reason; check out with fetch-depth: 0, or set base"
}

# Returns whether $bases holds even if the clone is shallow. It does if there is one merge base, and all commits that are not
# reachable from it have their parents: then no missing commit can be a better one. Arguments: those of find_merge_bases.
is_certain() {
  local incomplete
  is_shallow || return 0
  [ "$(grep -c . <<<"$bases")" = 1 ] || return 1
  incomplete=$(git rev-list "$head" "$@" --not "$bases" | grep -xFf "$(git rev-parse --git-path shallow)") || true
  [ -z "$incomplete" ]
}

# Deepens a shallow clone by a number of commits: deepen COMMITS|all COMMIT...
deepen() {
  # HEAD is not on the remote if a step of the job has made a commit.
  fetch "$1" "$head" "${@:2}" || fetch "$1" ||
    fail "the clone is shallow, and cannot be deepened: $reason; check out with fetch-depth: 0"
}

# Sets $bases to all best common ancestors of HEAD and the merge of the given commits: find_merge_bases COMMIT...
# A shallow clone is deepened until they are certain.
find_merge_bases() {
  local more
  for more in 0 100 1000 all; do
    [ "$more" = 0 ] || deepen "$more" "$@"
    bases=$(git merge-base --all "$head" "$@") || bases=
    if is_certain "$@"; then return; fi
  done
  fail "the clone is shallow, and so is its remote; check out with fetch-depth: 0"
}

# Sets $base to the only best common ancestor: find_merge_base NAME COMMIT...
find_merge_base() {
  local name=$1
  shift
  find_merge_bases "$@"
  base=$bases
  case $(grep -c . <<<"$bases") in
    0) fail "HEAD and $name have no common commit" ;;
    1) ;;
    *) fail "HEAD and $name have more than one merge base, because each was merged into the other: ${bases//$'\n'/, }; \
check out the merge commit of the pull request, merge $name into the branch, or set base" ;;
  esac
}

# Chooses the newest commit that HEAD shares with a branch: choose_from_branch NAME [COMMIT]...
# The commits are known to have been on the branch.
choose_from_branch() {
  local name=$1 tip
  shift
  tip=$(find_branch "$name")
  find_merge_base "$name" "$tip" "$@"
  [ "$base" != "$head" ] || fail "HEAD is already a part of $name, so there is no change to judge; set base"
  choose "$base" "the merge base of HEAD and $name"
}

# The payload of the event may name an older base than the one that a pull request was merged with.
choose_for_pull_request() {
  local from_event
  # This is refs/pull/NUMBER/merge. Another commit may be a merge within the branch of the pull request.
  if [ ${#parents[@]} = 2 ] && [ "${parents[1]}" = "$GATE_HEAD" ] && [ "${GITHUB_SHA:-$head}" = "$head" ]; then
    choose_parent "${parents[0]}"
  fi
  [ -n "$GATE_TARGET" ] || choose_without_event
  # A clone of a fork has an older target branch than the event.
  from_event=$(find_commit "$GATE_BASE")
  choose_from_branch "$GATE_TARGET" "$from_event"
}

choose_parent() {
  local commit
  commit=$(find_commit "$1")
  choose "$commit" "the parent of the merge commit HEAD on the side of the target branch"
}

# All commits of a push are under test.
choose_for_push() {
  local before
  if before=$(find_commit "$GATE_BASE" 2>/dev/null); then
    find_merge_bases "$before"
    [ "$bases" != "$before" ] || choose "$before" "the tip of the branch before the push"
  fi
  choose_for_new_branch "the push has replaced commits of the branch"
}

# A branch that is new or rewritten has no earlier tip to compare with: choose_for_new_branch REASON
choose_for_new_branch() {
  [ -n "$GATE_DEFAULT_BRANCH" ] || fail "$1: $(git merge-base "$GATE_BASE" HEAD 2>&1); set base"
  choose_from_branch "$GATE_DEFAULT_BRANCH"
}

# Only a commit on the side of the base is known.
choose_without_event() {
  local commit parent
  commit=$(find_commit "$GATE_BASE")
  if [ ${#parents[@]} -gt 1 ]; then
    for parent in "${parents[@]}"; do
      [ "$parent" != "$commit" ] || choose_parent "$parent"
    done
    ! is_shallow || deepen all "$commit"
    for parent in "${parents[@]}"; do
      ! git merge-base --is-ancestor "$commit" "$parent" || choose_parent "$parent"
    done
  fi
  find_merge_base "$GATE_BASE" "$commit"
  choose "$base" "the merge base of HEAD and $GATE_BASE"
}

head=$(git rev-parse HEAD)
remote=$(git remote)
case $'\n'$remote$'\n' in *$'\norigin\n'*) remote=origin ;; *) remote=${remote%%$'\n'*} ;; esac
parents=()
while IFS= read -r parent; do
  parents+=("$parent")
done < <(git cat-file commit "$head" | sed -n '1,/^$/s/^parent //p') # also names the parents that a shallow clone lacks

if [ -n "$GATE_BASE_INPUT" ]; then
  commit=$(find_commit "$GATE_BASE_INPUT")
  choose "$commit" "the input base"
elif [ -z "$GATE_BASE" ] && [ -n "$GATE_TARGET" ]; then
  choose_from_branch "$GATE_TARGET"
elif [ -z "$GATE_BASE" ]; then
  fail "the event${GITHUB_EVENT_NAME:+ $GITHUB_EVENT_NAME} names none; set base"
elif [[ $GATE_BASE =~ ^0+$ ]]; then
  choose_for_new_branch "this is the first push of the branch"
elif [ "$GITHUB_EVENT_NAME" = merge_group ]; then
  commit=$(find_commit "$GATE_BASE")
  choose "$commit" "the commit that the merge group was made on"
elif [ "$GITHUB_EVENT_NAME" = push ]; then
  choose_for_push
elif [ -n "$GATE_HEAD$GATE_TARGET" ]; then
  choose_for_pull_request
else
  choose_without_event
fi
