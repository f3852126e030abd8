"""Benchmarks of pytest-benchmark. WORK is the length of one of them, in per cent."""
import os

import pytest

STEPS = 200 * int(os.environ.get("WORK", "100"))


@pytest.mark.parametrize("count", [100, 1000])
def test_sort(benchmark, count):
    benchmark(sorted, [(index * 7919) % 1009 for index in range(count)])


def test_work(benchmark):
    benchmark(lambda: sum(range(STEPS)))


@pytest.mark.xfail(reason="not written yet")
def test_planned(benchmark):
    benchmark(lambda: 1 // 0)


def test_no_benchmark():
    assert STEPS > 0
