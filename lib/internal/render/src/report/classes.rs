//! Logarithmic histogram classes, and bar lengths in whole character cells.

use files::samples::Lateness;

/// Number of classes that fits on a screen together with the rest of the output.
const MAX_WISHED_CLASSES: usize = 14;
/// Class boundaries within a decade, from fine to coarse, in units of 1/[`SCALE`] of the decade.
/// The coarsest steps are used even if they result in more than [`MAX_WISHED_CLASSES`] classes.
const STEPS: [&[i64]; 3] = [
    &[100, 125, 160, 200, 250, 315, 400, 500, 630, 800],
    &[100, 150, 200, 300, 500, 700],
    &[100, 200, 500],
];
/// Factor by which [`STEPS`] are multiplied.
const SCALE: i64 = 100;

/// A class of a histogram: the values from `from` up to the start of the next class.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Class {
    /// Lower boundary; `i64::MIN` for the class of early and punctual ticks.
    pub from: i64,
    pub count: u64,
}

/// Divides values into logarithmic classes, including empty classes between occupied ones. The
/// boundaries are round numbers, as fine as a screen allows.
pub fn classes(values: &Lateness) -> Vec<Class> {
    let (mut early, mut min, mut max) = (0, None, 0);
    for (value, n) in values.counts() {
        if value <= 0 {
            early += n;
        } else {
            (min, max) = (min.or(Some(value)), value);
        }
    }
    let mut classes = Vec::new();
    if early > 0 {
        classes.push(Class { from: i64::MIN, count: early });
    }
    if let Some(min) = min {
        classes.extend(positive_classes(values, &readable_edges(min, max)));
    }
    classes
}

/// Counts the values above zero in classes that begin at `edges`.
fn positive_classes(values: &Lateness, edges: &[i64]) -> Vec<Class> {
    let mut classes: Vec<Class> = edges.iter().map(|&from| Class { from, count: 0 }).collect();
    let mut class = 0;
    for (value, n) in values.counts() {
        if value <= 0 {
            continue;
        }
        while classes.get(class + 1).is_some_and(|next| next.from <= value) {
            class += 1;
        }
        classes[class].count += n;
    }
    classes
}

/// Returns the finest class boundaries that fit on a screen, or the coarsest ones.
fn readable_edges(min: i64, max: i64) -> Vec<i64> {
    let [finer @ .., coarsest] = STEPS;
    for steps in finer {
        let boundaries = edges(min, max, steps);
        if boundaries.len() <= MAX_WISHED_CLASSES {
            return boundaries;
        }
    }
    edges(min, max, coarsest)
}

/// Returns the class boundaries: the last one at or below `min`, and all above it up to `max`.
fn edges(min: i64, max: i64, steps: &[i64]) -> Vec<i64> {
    let mut boundaries = Vec::new();
    // Below 100 ns a step of a hundredth is not a whole number, so the first decades are generated
    // separately.
    for decade in [1, 10] {
        let whole = steps.iter().filter(|step| *step % (SCALE / decade) == 0);
        boundaries.extend(whole.map(|step| step * decade / SCALE));
    }
    for power in 0..=18 {
        for step in steps {
            boundaries.extend(10_i64.pow(power).checked_mul(*step));
        }
    }
    boundaries.retain(|&edge| edge <= max);
    let first = boundaries.partition_point(|&edge| edge <= min).saturating_sub(1);
    boundaries.split_off(first)
}

/// Returns the length of a bar proportional to a count: at least one cell for a count above zero,
/// `width` cells for `max_count`.
pub fn count_cells(count: u64, max_count: u64, width: usize) -> usize {
    if count == 0 {
        return 0;
    }
    let share = count as f64 / max_count.max(count) as f64;
    ((share * width as f64).round() as usize).clamp(1, width.max(1))
}

/// Returns the length of a bar that ends at `ns` on a logarithmic scale from `low` to `high`.
pub fn time_cells(ns: i64, low: i64, high: i64, width: usize) -> usize {
    let span = log(high) - log(low);
    let share = if span > 0.0 { (log(ns) - log(low)) / span } else { 1.0 };
    (share.clamp(0.0, 1.0) * width as f64).round() as usize
}

fn log(ns: i64) -> f64 {
    (ns.max(1) as f64).ln()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn classes_have_round_boundaries() {
        assert_eq!(edges(7, 130, STEPS[2]), [5, 10, 20, 50, 100]);
        assert_eq!(edges(13_000, 29_000, STEPS[1]), [10_000, 15_000, 20_000]);
        assert_eq!(edges(1, 1, STEPS[0]), [1]);
        assert_eq!(edges(i64::MAX, i64::MAX, STEPS[2]), [5_000_000_000_000_000_000]);
        let values = Lateness::from_values(vec![-3, 0, 12_000, 14_000, 17_000, 310_000]);
        let classes = classes(&values);
        assert_eq!(classes[0], Class { from: i64::MIN, count: 2 });
        let counts: Vec<(i64, u64)> =
            classes[1..].iter().filter(|c| c.count > 0).map(|c| (c.from, c.count)).collect();
        assert_eq!(counts, [(10_000, 2), (15_000, 1), (300_000, 1)]);
    }

    #[test]
    fn single_tick_has_a_visible_bar() {
        assert_eq!(
            [0, 1, 500_000, 1_000_000].map(|n| count_cells(n, 1_000_000, 40)),
            [0, 1, 20, 40]
        );
        assert_eq!(count_cells(1, u64::MAX, 10), 1);
        assert_eq!([100, 1_000, 10_000].map(|ns| time_cells(ns, 100, 10_000, 40)), [0, 20, 40]);
        assert_eq!(time_cells(5, 5, 5, 40), 40);
    }

    proptest! {
        #[test]
        fn every_value_is_in_its_class(values in proptest::collection::vec(any::<i64>(), 0..60)) {
            let classes = classes(&Lateness::from_values(values.clone()));
            prop_assert_eq!(classes.iter().map(|c| c.count).sum::<u64>(), values.len() as u64);
            prop_assert!(classes.windows(2).all(|w| w[0].from < w[1].from));
            for (i, class) in classes.iter().enumerate() {
                let next = classes.get(i + 1).map_or(i64::MAX, |c| c.from);
                let inside = |v: &&i64| if class.from == i64::MIN { **v <= 0 } else {
                    **v > 0 && **v >= class.from && (**v < next || i + 1 == classes.len())
                };
                prop_assert_eq!(values.iter().filter(inside).count() as u64, class.count);
            }
        }
    }
}
