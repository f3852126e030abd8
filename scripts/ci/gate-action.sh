#!/usr/bin/env bash
# The action that gates a pull request must end as its README documents, in every situation.
set -euo pipefail
cd "$(dirname "$0")/../.."
# Runs the script of the action on a repository made for the test, and checks the step summary, the outputs, the exit code and
# the files that remain. Needs git. Argument: the osjitter to use [default: built].
# The choice of the base and the preparation of its tree need no osjitter, and are tested separately.
bash scripts/ci/gate-action/base.sh
bash scripts/ci/gate-action/tree.sh
bash scripts/ci/gate-action/osjitter.sh
unset GITHUB_EVENT_NAME GITHUB_BASE_REF GITHUB_SHA # of the job that runs this test
script=$PWD/.github/actions/gate/gate.sh
osjitter=${1:-}
if [ -z "$osjitter" ]; then
  cargo build --quiet --locked
  osjitter=$PWD/target/debug/osjitter
fi
osjitter=$(realpath "$osjitter")
python3 scripts/ci/gate-action/comments.py "$osjitter"
# The path contains a space, a quote and an ampersand, so the test fails if a path is not quoted.
work=$(mktemp -d)/"it's here & there"
mkdir -p "$work/runner" "$work/repository"
trap 'rm -rf "$(dirname "$work")"' EXIT

die() {
  cat "$work/log" "$work/summary" >&2 || true
  # Last, because CI repeats the last lines of a failed step.
  printf 'gate-action: %s\n' "$*" >&2
  exit 1
}

# The program follows the contract, but does not wait for ticks. Its build sets its lateness from the tenth tick on, which is
# shorter than the sleep: no tick can be later than its program runs.
cd "$work/repository"
git init --quiet --initial-branch main
git config user.name test
git config user.email test@localhost
cat >program.in <<'PROGRAM'
#!/bin/sh
sleep 0.006
{
  echo "osjitter.series/1 period_ns=1000000"
  { yes 20000 | head -n 10; yes LATE; } | head -n "$OSJITTER_TICKS"
} >"$OSJITTER_OUT"
PROGRAM
cat >build.sh <<'BUILD'
set -e
mkdir -p "$CARGO_TARGET_DIR"
sed "s/LATE/$(cat late)/" program.in >"$CARGO_TARGET_DIR/program"
chmod +x "$CARGO_TARGET_DIR/program"
BUILD
commit() { # message, lateness
  echo "$2" >late
  git add -A
  git commit --quiet -m "$1"
}
echo /target >.gitignore
commit "the base" 20000
git branch base
commit "slower" 90000
git branch slower
git checkout --quiet -b same base
git commit --quiet --allow-empty -m "equally late"
git checkout --quiet -b stalled base
commit "a permanent stall" 5020000
git checkout --quiet -b broken base
commit "does not build" "20000/"

# Runs the script: gate NAME=VALUE... It sets $code and writes the files summary, output and log.
gate() {
  : >"$work/summary"
  : >"$work/output"
  code=0
  env GATE_OSJITTER="$osjitter" GATE_PERIOD=1ms GATE_ARGS=$'--max-pairs=24\n\n--round-ticks=40\n--warmup=3' \
    GITHUB_STEP_SUMMARY="$work/summary" GITHUB_OUTPUT="$work/output" RUNNER_TEMP="$work/runner" \
    CARGO_TARGET_DIR="$work/shared-target" "$@" bash "$script" >"$work/log" 2>&1 || code=$?
}
tree=(GATE_BUILD='bash build.sh' GATE_COMMAND='{tree}/target/program' GATE_BASE=base)
expect() { # code, verdict, text in the summary
  [ "$code" = "$1" ] || die "exit code $code, expected $1"
  [ "$(sed -n 's/^verdict=//p' "$work/output")" = "$2" ] || die "expected the verdict '$2', got: $(cat "$work/output")"
  grep -q -- "$3" "$work/summary" || die "the summary lacks '$3'"
  [ -z "$2" ] || [ -s "$(sed -n 's/^file=//p' "$work/output")" ] || die "no verdict file"
  [ "$(git worktree list | wc -l)" = 1 ] || die "the base's worktree was left behind"
}

git checkout --quiet slower
gate "${tree[@]}"
expect 1 regressed 'Jitter gate: regressed'
annotation='::error title=Jitter gate::regressed: p50 20 us -> 90 us (+350 %25, tolerated +20 %25); p90 20 us -> 90 us'
grep -qF "$annotation" "$work/log" || die "the annotation lacks the figures"
expect_side() { # letter, name
  grep -q "$1: \`\{0,1\}$2" "$work/summary" || die "the side $1 is not named $2"
}
expect_side A "base $(git rev-parse --short base)"
expect_side B "candidate $(git rev-parse --short slower)"
grep -q "| p50 | 20.0 us | 90.0 us |" "$work/summary" || die "the two trees were not built separately"

git checkout --quiet same
gate "${tree[@]}"
expect 0 pass 'Jitter gate: pass'

# A pull request is not blamed for what main has become since the base of the event.
git checkout --quiet --detach slower
git merge --quiet --no-ff -m "a merge commit" same
gate "${tree[@]}"
expect 0 pass 'Jitter gate: pass'
expect_side A "base $(git rev-parse --short slower)"
git branch --quiet --force same 'HEAD^2'

git checkout --quiet stalled
gate "${tree[@]}" GATE_BASE=stalled
expect 0 inconclusive 'Jitter gate: inconclusive'
grep -q '::warning title=Jitter gate::not a pass: inconclusive: p50 5.02 ms -> 5.02 ms (+0 %25' "$work/log" || die "the annotation shows an inconclusive gate as a pass"
gate "${tree[@]}" GATE_BASE=stalled GATE_ON_INCONCLUSIVE=fail
expect 3 inconclusive 'Jitter gate: inconclusive'

# Two existing programs.
git checkout --quiet same
CARGO_TARGET_DIR=$work/existing bash build.sh
gate GATE_BASELINE_CMD="\"$work/existing/program\"" GATE_CANDIDATE_CMD="\"$work/existing/program\" again"
expect 0 pass 'again'

# Whole runs of two programs that do not tick, compared by a number that they write.
for side in 100 80; do
  # shellcheck disable=SC2016  # the program expands it
  printf '#!/bin/sh\nprintf "osjitter.series/1\\nmetric rate req/s higher\\nrate %s\\n" >"$OSJITTER_OUT"\n' $side >"$work/rate-$side"
  chmod +x "$work/rate-$side"
done
gate GATE_BASELINE_CMD="\"$work/rate-100\"" GATE_CANDIDATE_CMD="\"$work/rate-80\"" GATE_ARGS=$'--max-pairs=24\n--metric=rate'
# shellcheck disable=SC2016  # Markdown
expect 1 regressed '^| `\{0,1\}rate`\{0,1\} |'
grep -qF 'regressed: rate 100 req/s -> 80 req/s (-20 %25, tolerated -5 %25)' "$work/log" || die "the annotation lacks the figures of whole runs"

# A screen gives a quick verdict and is not calibrated.
rates=(GATE_BASELINE_CMD="\"$work/rate-100\"" GATE_ARGS=--metric=rate GATE_TIER=screen GATE_CALIBRATE=60s)
gate "${rates[@]}" GATE_CANDIDATE_CMD="\"$work/rate-80\""
expect 1 regressed 'Jitter screen: clearly worse'
grep -qF '::error title=Jitter gate::clearly worse: rate 100 req/s -> 80 req/s (-20 %25, tolerated -5 %25)' "$work/log" || die "the annotation lacks the verdict of the screen"
! grep -q '^::notice title=Jitter gate::On this machine' "$work/log" || die "a screen was calibrated"
cmp -s "$work/summary" "$(sed -n 's/^comment=//p' "$work/output")" || die "the comment differs from the summary"
gate "${rates[@]}" GATE_CANDIDATE_CMD="\"$work/rate-100\""
expect 0 pass 'Jitter screen: pass'
gate "${rates[@]}" GATE_CANDIDATE_CMD="\"$work/rate-100\"" GATE_SEE=5%
expect 2 '' 'a screen cannot plan for a change'
gate "${rates[@]}" GATE_CANDIDATE_CMD="\"$work/rate-100\"" GATE_TIER=quick
expect 2 '' "invalid tier 'quick': expected screen or full"
cmp -s "$work/summary" "$(sed -n 's/^comment=//p' "$work/output")" || die "the comment lacks the reason"

# The calibration reports the smallest detectable change; with GATE_SEE, pairs are planned for a given one.
tick="\"$work/existing/program\""
# Their numbers vary by 10 %, however busy the machine is.
for side in 100 200; do
  # shellcheck disable=SC2016  # the program expands it
  printf '#!/bin/sh\nn=7; [ ! -f "$0.n" ] || read -r n <"$0.n"; n=$((${n:-7} * 7919 %% 10007)); echo $n >"$0.n"\nprintf "osjitter.series/1\\nmetric size bytes lower\\nsize %%d\\n" $((%d000 + n)) >"$OSJITTER_OUT"\n' $side >"$work/size-$side"
  chmod +x "$work/size-$side"
done
larger=(GATE_BASELINE_CMD="\"$work/size-100\"" GATE_CANDIDATE_CMD="\"$work/size-200\"" GATE_ARGS=$'--max-pairs=24\n--metric=size' GATE_CALIBRATE=30s)
gate "${larger[@]}"
expect 1 regressed 'On this machine, .* detects a change of .* in size'
grep -q '^::notice title=Jitter gate::On this machine, .* probability\.$' "$work/log" || die "no annotation with the detectable change"
gate "${larger[@]}" GATE_ARGS=--metric=size GATE_SEE=30%
expect 1 regressed 'On this machine'
gate "${larger[@]}" GATE_ARGS=--metric=size GATE_SEE=0.0001%
expect 2 '' 'no verdict'
gate GATE_BASELINE_CMD="$tick" GATE_CANDIDATE_CMD="$tick" GATE_CALIBRATE=10ms
expect 0 pass 'pass'
grep -q '^::notice title=Jitter gate::not calibrated: ' "$work/log" || die "no annotation about the failed calibration"
gate GATE_BASELINE_CMD="$tick" GATE_CANDIDATE_CMD="$tick" GATE_CALIBRATE=10ms GATE_SEE=5%
expect 4 '' 'cannot plan the pairs for 5% without a calibration'
gate GATE_BASELINE_CMD="$tick" GATE_CANDIDATE_CMD="$tick" GATE_SEE=5%
expect 2 '' 'see requires calibrate'

# If the gate cannot run, the job fails and the summary has the reason.
gate "${tree[@]}" GATE_BASE=0123456789012345678901234567890123456789
expect 2 '' 'fetch-depth: 0'
grep -q '^::error title=Jitter gate::.*fatal: Not a valid commit name 0123' "$work/log" || die "the annotation lacks git's reason"
gate "${tree[@]}" GATE_COMMAND=target/program
expect 2 '' '{tree}'
gate "${tree[@]}" GATE_BUILD=
expect 2 '' 'command and build'
gate "${tree[@]}" GATE_BASELINE_CMD=true
expect 2 '' 'both baseline-cmd and candidate-cmd'
gate "${tree[@]}" GATE_BASELINE_CMD=true GATE_CANDIDATE_CMD=true
expect 2 '' 'not both'
gate "${tree[@]}" GATE_ARGS=--no-such-flag
expect 2 '' 'no verdict'
grep -q "^::error title=Jitter gate::error: unexpected argument '--no-such-flag' found$" "$work/log" || die "the annotation lacks the error"
gate "${tree[@]}" GATE_COMMAND='{tree}/no/such/program'
expect 2 '' 'cannot start'
git checkout --quiet broken
gate "${tree[@]}"
expect 4 '' 'cannot build the candidate'
git checkout --quiet -b on-broken broken
commit "builds again" 20000
gate "${tree[@]}" GATE_BASE=broken
expect 4 '' 'cannot build the merge base'

# A benchmark of cargo, built from both trees.
git checkout --quiet --orphan bench base
git rm --quiet -rf .
mkdir -p src benches
printf '[package]\nname = "suite"\nedition = "2021"\n[[bench]]\nname = "speed"\nharness = false\n' >Cargo.toml
printf '/target\n' >.gitignore
touch src/lib.rs
bench() { # nanoseconds, message
  printf 'fn main() { println!("test sum ... bench: %s ns/iter (+/- 3)") }\n' "$1" >benches/speed.rs
  cargo generate-lockfile --offline --quiet
  git add -A
  git commit --quiet -m "$2"
}
bench 400 "a benchmark"
git branch bench-base
bench 800 "a slower benchmark"
benches=(GATE_BENCH=speed GATE_BASE=bench-base GATE_ARGS=$'--metric=libtest\n--max-pairs=24\n--cargo-flags=-p suite')
gate "${benches[@]}"
# shellcheck disable=SC2016  # Markdown
expect 1 regressed '^| `\{0,1\}sum`\{0,1\} |'
grep -qF 'regressed: sum 400 ns -> 800 ns (+100 %25, tolerated +5 %25)' "$work/log" || die "the annotation lacks the benchmark"
expect_side A "base $(git rev-parse --short bench-base)"
gate "${benches[@]}" GATE_CALIBRATE=30s GATE_SEE=30% GATE_ARGS=$'--metric=libtest\n--cargo-flags=-p suite'
expect 1 regressed 'On this machine'
gate "${benches[@]}" GATE_BENCH=nothing
expect 2 '' 'cargo cannot build nothing of working tree'
gate "${benches[@]}" GATE_COMMAND='{tree}/x'
expect 2 '' 'give bench, or two programs'
git checkout --quiet on-broken

# The event would give the pull request the permissions and secrets of the repository.
gate "${tree[@]}" GITHUB_EVENT_NAME=pull_request_target
expect 2 '' 'use on: pull_request'
! grep -q '::group::build' "$work/log" || die "a build was run in pull_request_target"

# Neither a build nor a program can write outputs or use tokens of the job.
tokens=(GITHUB_ENV="$work/env" GITHUB_PATH="$work/path" GITHUB_STATE="$work/state" GITHUB_TOKEN=x GH_TOKEN=x
  ACTIONS_RUNTIME_TOKEN=x ACTIONS_ID_TOKEN_REQUEST_TOKEN=x ACTIONS_ID_TOKEN_REQUEST_URL=x)
expect_hidden() { # description
  [ -s "$work/environment" ] || die "$1 has not run"
  ! grep -E '^(GITHUB_(OUTPUT|STEP_SUMMARY|ENV|PATH|STATE|TOKEN)|GH_TOKEN|ACTIONS_.*)=' "$work/environment" ||
    die "$1 has files or tokens of the job in its environment"
  rm "$work/environment"
}
gate "${tree[@]}" "${tokens[@]}" GATE_BUILD="env >\"$work/environment\"; false"
expect 4 '' 'cannot build the candidate'
expect_hidden "a build"
printf '#!/bin/sh\nenv >"%s"\nexit 1\n' "$work/environment" >"$work/curious"
chmod +x "$work/curious"
gate "${tokens[@]}" GATE_BASELINE_CMD="\"$work/curious\"" GATE_CANDIDATE_CMD="\"$work/curious\"" GATE_CALIBRATE=5s GATE_SEE=5%
expect 4 '' 'without a calibration'
expect_hidden "a calibrated program"
gate "${tokens[@]}" GATE_BASELINE_CMD="\"$work/curious\"" GATE_CANDIDATE_CMD="\"$work/curious\""
expect 2 '' 'no verdict'
expect_hidden "a gated program"

# The output of a program reaches neither the runner as a command nor the summary as Markdown.
cat >"$work/mean" <<'PROGRAM'
#!/bin/sh
printf '::error::forged\n```\n# forged\n<img src=x>\n' >&2
exit 1
PROGRAM
chmod +x "$work/mean"
gate GATE_BASELINE_CMD="\"$work/mean\"" GATE_CANDIDATE_CMD="\"$work/mean\""
expect 2 '' '# forged'
awk '/^::stop-commands::/ { token = substr($0, 18); stopped = 1 }
  $0 == "::" token "::" { stopped = 0 }
  /::error::forged/ && !/^::error title=Jitter gate::error: / { seen = 1; if (!stopped) exit 1 }
  END { if (!seen) exit 1 }' "$work/log" || die "a command of the program reaches the runner"
awk '/^`+text$/ { fence = $0; sub("text", "", fence) } $0 == fence { fence = "" }
  /^# forged|<img|^```$/ { if (fence == "") exit 1 }' "$work/summary" || die "Markdown of the program reaches the summary"
echo "gate-action: the action ends as documented in every situation"
