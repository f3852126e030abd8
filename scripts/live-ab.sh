#!/usr/bin/env bash
# Whether the live view disturbs what it shows: the gate judges runs on a terminal with the view against runs without it,
# interleaved, and fails as for any other regression. Rounds are short, so that the view is drawn as often as it ever is.
# Arguments: the subject, and what else the gate shall be told. Needs util-linux's script(1) for the terminal.
set -euo pipefail
cd "$(dirname "$0")/.."
subject=${1:-os-interval}
shift || true
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

cargo build --release --locked --bin osjitter
export OSJITTER=$PWD/target/release/osjitter

cat >"$work/side" <<'SIDE'
#!/usr/bin/env bash
# One side of the gate: a run of the ticks asked for, its lateness written as a series.
set -euo pipefail
side=$1 subject=$2
home=$(mktemp -d)
trap 'rm -rf "$home"' EXIT
more=
[ "$side" = on ] || more=--no-progress
run="$OSJITTER run --period 500us --ticks $OSJITTER_TICKS --round-ticks 50 --subject $subject --out $home/run $more"
TERM=xterm script --quiet --return --command "stty cols 100 rows 30; $run" "$home/typescript" >/dev/null </dev/null
# A side that drew nothing, or one that drew although it should not, would compare a thing with itself.
drawn=$(grep -c $'\x1b\\[2K' "$home/typescript" || true)
if [ "$side" = on ]; then [ "$drawn" -gt 0 ]; else [ "$drawn" -eq 0 ]; fi
{
  echo "osjitter.series/1 period_ns=500000"
  "$OSJITTER" report "$home/run/report.json" --format csv --samples | tail -n +2 | cut -d, -f8
} >"$OSJITTER_OUT"
SIDE
chmod +x "$work/side"
"$OSJITTER" gate --period 500us --baseline-cmd "$work/side off $subject" --candidate-cmd "$work/side on $subject" \
  --out "$work/gate" "$@"
