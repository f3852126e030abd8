# The messages of the action to the runner. Sourced by its scripts.
# shellcheck shell=bash

# Prints an annotation and escapes its text: annotate error|warning|notice TEXT
annotate() {
  local text=${2//'%'/%25}
  text=${text//$'\r'/%0D}
  printf '::%s title=Jitter gate::%s\n' "$1" "${text//$'\n'/%0A}"
}

# Runs a command whose output may contain anything, for example `::error::`, and keeps the runner from interpreting it.
quoted_log() {
  local token code=0
  token=$(od -An -N16 -tx1 /dev/urandom | tr -d ' \n')
  echo "::stop-commands::$token"
  "$@" || code=$?
  # The output may lack a newline at its end.
  printf '\n::%s::\n' "$token"
  return "$code"
}

# Prints the Markdown that explains why there is no verdict: no_verdict MESSAGE
no_verdict() {
  # shellcheck disable=SC2016  # Markdown
  printf '### Jitter gate: no verdict\n\n`````text\n%s\n`````\n' "${1//\`/\'}"
}
