// Benchmarks of Google Benchmark. WORK is the length of one of them, in per cent.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <cstdlib>
#include <numeric>
#include <vector>

static long steps() {
  const char *work = std::getenv("WORK");
  return 50 * (work ? std::atol(work) : 100);
}

static void BM_sort(benchmark::State &state) {
  std::vector<int> unsorted(state.range(0));
  for (size_t index = 0; index < unsorted.size(); ++index) unsorted[index] = index * 7919 % 1009;
  for (auto _ : state) {
    std::vector<int> numbers = unsorted;
    std::sort(numbers.begin(), numbers.end());
    benchmark::DoNotOptimize(numbers.data());
  }
  state.SetItemsProcessed(state.iterations() * state.range(0));
}
BENCHMARK(BM_sort)->Arg(100)->Arg(1000)->Unit(benchmark::kMicrosecond);

static void BM_work(benchmark::State &state) {
  const long count = steps();
  for (auto _ : state) {
    for (long step = 0; step < count; ++step) benchmark::DoNotOptimize(step);
  }
}
BENCHMARK(BM_work);

static void BM_median(benchmark::State &state) {
  for (auto _ : state) {
    for (long step = 0; step < 1000; ++step) benchmark::DoNotOptimize(step);
  }
}
BENCHMARK(BM_median)->ReportAggregatesOnly();

static void BM_gpu(benchmark::State &state) {
  state.SkipWithError("no GPU");
  for (auto _ : state) {
  }
}
BENCHMARK(BM_gpu);

BENCHMARK_MAIN();
