# Reads the command lines of the README, for the steps that run them. Sourced after the step has changed to the root of the repository.
# shellcheck shell=bash

# Prints the only line of the README's shell blocks that begins with a text.
readme_line() {
  local lines
  lines=$(awk -v beginning="$1" '/^```/ { in_shell = $0 == "```sh"; next } in_shell && index($0, beginning) == 1' README.md)
  if [ "$(grep -c . <<<"$lines")" != 1 ]; then
    echo "error: expected one line in the shell blocks of README.md that begins with '$1'; found: ${lines:-none}" >&2
    return 1
  fi
  echo "$lines"
}
