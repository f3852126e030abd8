#!/usr/bin/env bash
# A clock read of tach must compile to one counter instruction, and elapsed must not cost more than std's.
set -euo pipefail
cd "$(dirname "$0")/../.."
# Except for the first read, the path may have at most one load and one branch that is not taken, and no call. A monotonic read of
# the thread that has the bias accesses the epoch twice and three variables of the thread, one of them twice, and has two branches.
# This is checked
# on x86_64, and on aarch64, for which the standard library is built from Debian's sources. Programs are linked with LTO, like
# programs for which cycles matter. Without LTO, the address of the state comes from the global offset table, which is one more
# load; x86_64 is checked in this way as well.
#
#   scripts/ci/disassembly.sh          both
#   scripts/ci/disassembly.sh x86_64   only x86_64 without LTO, and the cost of elapsed; takes a few seconds
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

# The maximum numbers of loads and branches. On Arm, an ordered read ends with a load from its own stack frame.
limits = {"instant_now": (1, 1), "ordered_instant_now": (1 if X86 else 2, 1), "monotonic_instant_now": (6, 2)}
assert functions.keys() == limits.keys(), f"found {sorted(functions)}"
for name, (max_count, max_branches) in limits.items():
    code = functions[name]
    index = {address: i for i, (address, _) in enumerate(code)}
    path, i = [], 0
    while True:
        text = code[i][1]
        path.append(text)
        if RETURN.match(text):
            break
        if JUMP.match(text):
            i = index[int(re.search(r"\b([0-9a-f]+)\s+<", text)[1], 16)]
        else:
            i += 1
    counters, loads = sum(bool(COUNTER.match(t)) for t in path), sum(is_load(t) for t in path)
    branches, calls = sum(bool(CONDITIONAL.match(t)) for t in path), sum(bool(CALL.match(t)) for t in path)
    print(f"{architecture} {name}: {counters} counter read, {loads} load(s), {branches} branch not taken, {calls} calls, {len(path)} instructions")
    assert counters == 1 and loads <= max_count + int(address_loads) and branches <= max_branches and calls == 0, "\n".join(path)
PY
}

programs=target/disassembly
build native
examine objdump $programs/x86_64-unknown-linux-gnu/release/examples/reads x86_64 1
if [ "${1-}" = x86_64 ]; then
  # This build reuses the crates of the one above.
  CARGO_TARGET_DIR=$PWD/$programs \
    cargo test --release --target x86_64-unknown-linux-gnu --package osjitter-tach --test speed --locked
  exit
fi
export CARGO_PROFILE_RELEASE_LTO=fat
build native
examine objdump $programs/x86_64-unknown-linux-gnu/release/examples/reads x86_64 0
build debian
examine aarch64-linux-gnu-objdump $programs/aarch64-unknown-linux-gnu/release/examples/reads aarch64 0
