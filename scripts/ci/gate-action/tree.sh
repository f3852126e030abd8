#!/usr/bin/env bash
# The action must prepare the tree of the base as the checkout was prepared: with its submodules and LFS files.
set -euo pipefail
cd "$(dirname "$0")/../../.."
# Runs the script of the action on repositories made for the test, with builds that check the trees. Takes seconds; needs git,
# and git-lfs for the cases with LFS.
script=$PWD/.github/actions/gate/gate.sh
work=$(mktemp -d)/"it's here & there"
mkdir -p "$work/runner"
trap 'rm -rf "$(dirname "$work")"' EXIT
unset GITHUB_EVENT_NAME GITHUB_BASE_REF GITHUB_SHA # of the job that runs this test
export GIT_CONFIG_GLOBAL=$work/config GIT_CONFIG_NOSYSTEM=1
git config --global user.name test
git config --global user.email test@localhost
git config --global init.defaultBranch main
git config --global advice.detachedHead false
git config --global protocol.file.allow always

die() {
  tail -n 30 "$work/log" >&2
  printf 'gate-action: tree: %s\n' "$*" >&2
  exit 1
}

# A program in the place of osjitter. It ends the gate after the builds.
printf '#!/bin/sh\necho "error: both trees were built" >&2\nexit 2\n' >"$work/osjitter"
chmod +x "$work/osjitter"

# Runs the action in a checkout. Its base is the parent of HEAD: gate CHECKOUT BUILD
gate() {
  cd "$work/$1"
  local settings
  settings=$(cat .git/config)
  env GATE_OSJITTER="$work/osjitter" GATE_BUILD="$2" GATE_COMMAND='{tree}/program' \
    GATE_BASE="$(git rev-parse HEAD^)" RUNNER_TEMP="$work/runner" bash "$script" >"$work/log" 2>&1 || true
  [ "$(cat .git/config)" = "$settings" ] || die "$1: the configuration of the checkout was changed"
  [ -z "$(find .git -path '*/worktrees/*')" ] || die "$1: a worktree was left behind"
}
expect() { # text of the annotation
  grep -q "^::error title=Jitter gate::.*$1" "$work/log" || die "${FUNCNAME[1]}: line ${BASH_LINENO[0]}: expected '$1'"
}
# Checks the trees: the builds of the two sides are different.
trees() { # checkout, test of the candidate, test of the base
  gate "$1" "case \$PWD in */runner/*) $3 ;; *) $2 ;; esac"
  grep -q '^::error title=Jitter gate::error: both trees were built$' "$work/log" || die "$1: line ${BASH_LINENO[0]}: a tree is wrong"
}
contains() { printf "[ \"\$(cat '%s' 2>/dev/null)\" = '%s' ]" "$1" "$2"; } # file, content
lacks() { printf "[ ! -e '%s' ]" "$1"; }

new_repository() { # name, content of its file
  git init --quiet "$work/$1"
  cd "$work/$1"
  commit_file "$2"
}
commit_file() {
  echo "$1" >file
  commit "$1"
}
commit() {
  git add -A
  git commit --quiet --allow-empty -m "$1"
}

new_repository nested nested-1
new_repository other other-1
new_repository library library-1
git submodule --quiet add ../nested nested
commit nested
new_repository main main-1
git submodule --quiet add ../library 'a library'
git submodule --quiet add --name named ../other other
commit base
cd "$work/library" && commit_file library-2
cd "$work/main/a library" && git pull --quiet origin main
cd "$work/main" && commit candidate

clone() { # name, option... Clones like actions/checkout do
  git clone --quiet --no-local "${@:2}" "file://$work/main" "$work/$1"
}
clone none
trees none "$(lacks 'a library/file')" "$(lacks 'a library/file')"
clone flat
git -C "$work/flat" submodule --quiet update --init
for hooks in "$work/flat/.git/hooks" "$work/flat/.git/modules/other/hooks"; do
  mkdir -p "$hooks"
  printf '#!/bin/sh\ntouch "%s"\n' "$work/hooked" >"$hooks/post-checkout"
  chmod +x "$hooks/post-checkout"
done
trees flat "$(contains 'a library/file' library-2) && $(lacks 'a library/nested/file')" \
  "$(contains 'a library/file' library-1) && $(contains other/file other-1) && $(lacks 'a library/nested/file')"
[ ! -e "$work/hooked" ] || die "a hook was run"
# The shallow clone of the submodule lacks the commit of the base.
clone deep
git -C "$work/deep" submodule --quiet update --init --recursive --depth 1
trees deep "$(contains 'a library/nested/file' nested-1)" "$(contains 'a library/file' library-1) && $(contains 'a library/nested/file' nested-1)"
clone one
git -C "$work/one" submodule --quiet update --init other
trees one "$(contains other/file other-1)" "$(contains other/file other-1) && $(lacks 'a library/file')"

# The candidate moves, replaces or removes a submodule.
cd "$work/main" && git mv other moved && commit moved
clone moved --recurse-submodules
trees moved "$(contains moved/file other-1)" "$(contains other/file other-1) && $(lacks moved)"
cd "$work/main" && git rm --quiet moved && rm -rf .git/modules/named && git submodule --quiet add --name second ../nested moved && commit replaced
clone replaced --recurse-submodules
trees replaced "$(contains moved/file nested-1)" "$(contains moved/file other-1)"
cd "$work/main" && git rm --quiet 'a library' && commit removed
clone removed --recurse-submodules
trees removed "$(lacks 'a library')" "$(contains 'a library/file' library-2) && $(contains 'a library/nested/file' nested-1)"
clone removed-none
trees removed-none "$(lacks 'a library')" "$(lacks 'a library/file')"
cd "$work/main" && git rm --quiet moved && commit "removed the last"
clone last --recurse-submodules
trees last "$(lacks moved)" "$(contains moved/file nested-1)"

cd "$work/main" && git submodule --quiet add --name address "$work/other" address && commit "an address"
git rm --quiet --cached address && rm -rf address .git/modules/address && git config --remove-section submodule.address
git submodule --quiet add --name address "$work/library" address && commit "another address"
clone address --recurse-submodules
trees address "$(contains address/file library-2)" "$(contains address/file other-1)"

# A submodule that cannot be fetched, with git's reason.
mv "$work/library" "$work/gone-library"
gate removed :
expect "cannot prepare the merge base: submodule a library: fatal: .*library' does not appear"
# It may be unneeded if the checkout has none.
mv "$work/nested" "$work/gone-nested"
git -C "$work/main" checkout --quiet --detach HEAD~2 2>/dev/null
clone unneeded
trees unneeded : :
gate unneeded "case \$PWD in */runner/*) false ;; esac"
expect "cannot build the merge base; see the log (submodule moved: .*nested' does not appear"

# A part of the tree.
rm -rf "$work/main"
new_repository main parts
mkdir -p wanted unwanted
touch wanted/file unwanted/file
commit base
commit candidate
clone sparse --sparse
git -C "$work/sparse" sparse-checkout set wanted
trees sparse "[ -e wanted/file ] && $(lacks unwanted)" "[ -e wanted/file ] && $(lacks unwanted)"

if ! command -v git-lfs >/dev/null; then
  echo "gate-action: tree: git-lfs is missing, so the cases with LFS files are left out"
  exit 0
fi
git lfs install --skip-repo >/dev/null
cd "$work/main"
git lfs track --filename large >/dev/null
echo content-1 >large
commit base
echo content-2 >large
commit candidate
clone files
trees files "$(contains large content-2)" "$(contains large content-1)"
GIT_LFS_SKIP_SMUDGE=1 clone pointers
trees pointers 'grep -q oid large' 'grep -q oid large'
cd "$work/main"
git rm --quiet large && commit "removed the last"
clone files-removed
git -C "$work/files-removed" lfs install --local >/dev/null
trees files-removed "$(lacks large)" "$(contains large content-2)"
echo "gate-action: tree: the base is prepared as the checkout is in every situation"
