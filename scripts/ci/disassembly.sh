#!/usr/bin/env bash
# Reading a clock of tach must be one counter instruction in the machine code, and elapsed no dearer than std's.
set -euo pipefail
cd "$(dirname "$0")/../.."
# On the path of every reading but the first, at most one load and one branch that is not taken, and no call: on x86_64, and
# on aarch64, for which the standard library is built from Debian's sources. Programs are linked with LTO, as programs that
# count cycles are; without it the address of the one word comes from the global offset table, which is one load more
# (x86_64 is checked that way as well).
#
#   scripts/ci/disassembly.sh          both
#   scripts/ci/disassembly.sh x86_64   x86_64 alone, without LTO, and the price of elapsed: some seconds
. scripts/ci/common.sh
install_packages binutils python3
# The functions are found by their names.
export CARGO_PROFILE_RELEASE_STRIP=none

build() {
  case $1 in
    native) CARGO_TARGET_DIR=$PWD/target/disassembly cargo build --release --locked --package osjitter-tach --example reads --target x86_64-unknown-linux-gnu ;;
    debian)
      RUSTC=/usr/bin/rustc RUSTC_BOOTSTRAP=1 CARGO_TARGET_DIR=$PWD/target/disassembly \
        CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER=aarch64-linux-gnu-gcc \
        /usr/bin/cargo build --release --locked --package osjitter-tach --example reads \
        -Zbuild-std=std,panic_unwind --target aarch64-unknown-linux-gnu
      ;;
  esac
}

examine() {
  python3 - "$@" <<'PY'
import re, subprocess, sys

objdump, program, architecture, address_loads = sys.argv[1:]
X86 = architecture == "x86_64"
COUNTER = re.compile(r"^(rdtsc|rdtscp)\b" if X86 else r"^mrs\s+x\d+, cntvct_el0")
CALL = re.compile(r"^call" if X86 else r"^(bl|blr)\b")
CONDITIONAL = re.compile(r"^j(?!mp)" if X86 else r"^(b\.|cbz|cbnz|tbz|tbnz)")
JUMP = re.compile(r"^jmp" if X86 else r"^(b|br)\s")
RETURN = re.compile(r"^ret")
STACK = "rsp" if X86 else "sp"


def is_load(text):
    if X86:
        return "(" in text and not re.match(r"^(lea|nop)", text) and STACK not in text
    return re.match(r"^(ld\w+|casa?l?\w*)\s", text) is not None and STACK not in text


dump = subprocess.run([objdump, "-d", "--demangle", "--no-show-raw-insn", program], check=True, capture_output=True, text=True)
functions = {}
for block in dump.stdout.split("\n\n"):
    head, _, body = block.partition("\n")
    name = re.match(r"^[0-9a-f]+ <reads::(\w+_now)(::h[0-9a-f]+)?>:$", head)
    if name:
        lines = [re.match(r"^\s*([0-9a-f]+):\s*(.*?)\s*(?:[#/].*)?$", line) for line in body.splitlines()]
        functions[name[1]] = [(int(l[1], 16), l[2]) for l in lines if l]

# The counter instructions allowed, and the loads: an ordered read on Arm ends in one from its own stack frame.
wanted = {"instant_now": 1, "ordered_instant_now": 1 if X86 else 2, "monotonic_instant_now": 1 if X86 else 2}
assert functions.keys() == wanted.keys(), f"found {sorted(functions)}"
for name, most_loads in wanted.items():
    code = functions[name]
    at = {address: i for i, (address, _) in enumerate(code)}
    path, i = [], 0
    while True:
        text = code[i][1]
        path.append(text)
        if RETURN.match(text):
            break
        if JUMP.match(text):
            i = at[int(re.search(r"\b([0-9a-f]+)\s+<", text)[1], 16)]
        else:
            i += 1
    counters, loads = sum(bool(COUNTER.match(t)) for t in path), sum(is_load(t) for t in path)
    branches, calls = sum(bool(CONDITIONAL.match(t)) for t in path), sum(bool(CALL.match(t)) for t in path)
    print(f"{architecture} {name}: {counters} counter read, {loads} load(s), {branches} branch not taken, {calls} calls, {len(path)} instructions")
    assert counters == 1 and loads <= most_loads + int(address_loads) and branches <= 1 and calls == 0, "\n".join(path)
PY
}

programs=target/disassembly
build native
examine objdump $programs/x86_64-unknown-linux-gnu/release/examples/reads x86_64 1
if [ "${1-}" = x86_64 ]; then
  # The build above has what this needs.
  CARGO_TARGET_DIR=$PWD/$programs \
    cargo test --release --target x86_64-unknown-linux-gnu --package osjitter-tach --test speed --locked
  exit
fi
export CARGO_PROFILE_RELEASE_LTO=fat
build native
examine objdump $programs/x86_64-unknown-linux-gnu/release/examples/reads x86_64 0
build debian
examine aarch64-linux-gnu-objdump $programs/aarch64-unknown-linux-gnu/release/examples/reads aarch64 0
