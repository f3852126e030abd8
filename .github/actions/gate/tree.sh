# Makes the tree of the base as the checkout was made: with its submodules and its LFS files. Sourced by gate.sh.
# shellcheck shell=bash disable=SC2034  # gate.sh uses $unprepared
#
# All trees are worktrees of the checkout and of its submodules, so objects are only fetched if the checkout lacks them. The
# functions set $reason if they fail.

base_trees=()        # the directories of the worktrees
tree_repositories=() # the repositories in which they are registered
unprepared=          # a submodule of the base that is missing, and may not be needed

# Runs git in a directory, without hooks and without maintenance in the background: try_git DIRECTORY ARGUMENT...
try_git() {
  reason=$(GIT_LFS_SKIP_SMUDGE=1 GIT_TERMINAL_PROMPT=0 git -c core.hooksPath=/dev/null -c gc.auto=0 -c maintenance.auto=false \
    -C "$@" 2>&1 </dev/null)
}

# Checks a commit of a repository out into a directory, which is missing or empty: add_tree CHECKOUT COMMIT DIRECTORY
add_tree() {
  base_trees+=("$3")
  tree_repositories+=("$1")
  try_git "$1" worktree add --quiet --detach "$3" "$2" || return
  if needs_lfs_files "$1" "$3"; then
    # The credentials of the checkout may not be valid in its worktrees, which then have nothing left to fetch.
    try_git "$1" lfs fetch origin "$2" || true
    try_git "$3" lfs pull || return
  fi
  add_submodules "$1" "$3"
}

# Returns whether a tree has LFS files, and those of the checkout are files and not pointers: needs_lfs_files CHECKOUT TREE
needs_lfs_files() {
  local files
  git -C "$2" grep --quiet filter=lfs -- '*.gitattributes' || return
  files=$(git -C "$1" lfs ls-files 2>/dev/null) || return
  if [ -n "$files" ]; then
    grep -q '^[0-9a-f]* \* ' <<<"$files"
  else
    # The candidate has removed them all.
    git -C "$1" config --local --get-regexp '^filter\.lfs\.' >/dev/null
  fi
}

# Adds the submodules of a base tree that are initialised in the checkout, and theirs: add_submodules CHECKOUT TREE
add_submodules() {
  local checkout=$1 tree=$2 mode commit path name source
  while read -r -d '' mode commit _ path; do
    [ "$mode" = 160000 ] || continue
    name=$(submodule_name "$tree" "$path")
    source=$(submodule_of_checkout "$checkout" "$path" "$name")
    if [ -n "$source" ] && fetch_commit "$source" "$commit"; then
      add_tree "$source" "$commit" "$tree/$path" || return
    elif [ -n "$source" ] || is_removed_submodule "$checkout" "$name"; then
      clone_submodule "$checkout" "$tree" "$path" "$name" || return
    fi
  done < <(git -C "$tree" ls-files --stage -z)
}

# Prints the directory of a submodule in the checkout if it is initialised there: submodule_of_checkout CHECKOUT PATH NAME
# The candidate may have moved it.
submodule_of_checkout() {
  local path
  for path in "$2" "$(submodule_path "$1" "$3")"; do
    if [ -n "$path" ] && [ -e "$1/$path/.git" ]; then
      printf '%s' "$1/$path"
      return
    fi
  done
}

# Prints the name of a submodule, which .gitmodules gives to its path: submodule_name TREE PATH
submodule_name() {
  local entry
  while IFS= read -r -d '' entry; do
    [ "${entry#*$'\n'}" = "$2" ] || continue
    entry=${entry%%.path$'\n'*}
    printf '%s' "${entry#submodule.}"
  done < <(git config --null --file "$1/.gitmodules" --get-regexp '^submodule\..*\.path$' 2>/dev/null)
}

# Prints the path of a submodule, or nothing if the tree has no such submodule: submodule_path TREE NAME
submodule_path() { git config --file "$1/.gitmodules" "submodule.$2.path" 2>/dev/null || true; }

# Fetches a commit into a submodule of the checkout if it lacks it: fetch_commit SUBMODULE COMMIT
fetch_commit() {
  local depth=()
  if git -C "$1" cat-file -e "$2^{commit}" 2>/dev/null; then return; fi
  [ "$(git -C "$1" rev-parse --is-shallow-repository)" = false ] || depth=(--depth=1)
  try_git "$1" fetch --quiet --no-tags --no-recurse-submodules ${depth[@]+"${depth[@]}"} origin "$2"
}

# Returns whether the candidate has removed a submodule of the base, unless the checkout leaves its submodules uninitialised:
# is_removed_submodule CHECKOUT NAME
is_removed_submodule() {
  local others
  [ -n "$2" ] && [ -z "$(submodule_path "$1" "$2")" ] || return 1
  others=$(git -C "$1" submodule status 2>/dev/null) || true
  [ -z "$others" ] || grep -q '^[^-]' <<<"$others"
}

# Clones a submodule from its own remote, and leaves the checkout's configuration as it is:
# clone_submodule CHECKOUT TREE PATH NAME
clone_submodule() {
  local url settings update=(submodule --quiet update --depth=1)
  url=$(git config --file "$2/.gitmodules" "submodule.$4.url" || true)
  settings=(-c "submodule.$4.active=true")
  # The checkout's configuration has the candidate's address. Git resolves a relative one itself.
  case $url in ./* | ../*) ;; *) settings+=(-c "submodule.$4.url=$url") ;; esac
  if try_git "$2" "${settings[@]}" "${update[@]}" -- "$3"; then
    # Nothing in the checkout shows whether its submodules are needed.
    try_git "$2/$3" "${update[@]}" --init --recursive || unprepared=" ($reason)"
  else
    reason="submodule $3: $reason"
    # A checkout without submodules may have been made without asking for them.
    [ -z "$(git -C "$1" submodule status 2>/dev/null)" ] || return
    unprepared=" ($reason)"
  fi
}

# Removes the trees and their registrations, which would otherwise outlive the job in the user's repositories.
remove_trees() {
  local directory repository
  for directory in ${base_trees[@]+"${base_trees[@]}"}; do rm -f "$directory/.git"; done
  for repository in ${tree_repositories[@]+"${tree_repositories[@]}"}; do git -C "$repository" worktree prune || true; done
  for directory in ${base_trees[@]+"${base_trees[@]}"}; do rm -rf "$directory" || true; done
}
