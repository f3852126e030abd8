//! Six benchmarks, from nanoseconds to tens of microseconds. With the feature `slowed`, `parse` does 5 % more work.

use std::hint::black_box;

use criterion::{BatchSize, BenchmarkId, Criterion, criterion_group, criterion_main};
use criterion_suite::{LINES, count_groups, hash, lines, numbers, sum_of_lines};

fn benches(criterion: &mut Criterion) {
    let bytes = lines(1000).into_bytes();
    criterion.bench_function("hash", |b| b.iter(|| hash(black_box(&bytes))));
    let text = lines(LINES);
    criterion.bench_function("parse", |b| b.iter(|| sum_of_lines(black_box(&text))));
    let unsorted = numbers(1000);
    criterion.bench_function("sort", |b| {
        b.iter_batched_ref(
            || unsorted.clone(),
            |numbers| numbers.sort_unstable(),
            BatchSize::SmallInput,
        );
    });
    criterion.bench_function("format", |b| b.iter(|| lines(black_box(100))));
    criterion.bench_function("count", |b| b.iter(|| count_groups(black_box(&unsorted))));
    let mut group = criterion.benchmark_group("search");
    let mut sorted = unsorted.clone();
    sorted.sort_unstable();
    let id = BenchmarkId::new("binary", sorted.len());
    group.bench_with_input(id, &sorted, |b, sorted| {
        b.iter(|| sorted.binary_search(black_box(&unsorted[500])));
    });
    group.finish();
}

criterion_group!(suite, benches);
criterion_main!(suite);
