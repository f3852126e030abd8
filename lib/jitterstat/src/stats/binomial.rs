//! The exact interval of a share (Clopper and Pearson, Biometrika 26, 1934). In contrast to
//! resampling, it accounts for events that have not happened yet.
//!
//! Above a billion trials, sums of probabilities would take long and lose their digits. The bounds
//! are then approximated, to a ten-thousandth of their distance from the observed share: by those
//! of a Poisson number if one of the two outcomes is rare, and otherwise by formula 26.5.22 of
//! Abramowitz and Stegun ("Handbook of Mathematical Functions", 1964) for the percentage points of
//! the beta distribution.

use std::f64::consts::PI;

use super::Interval;

/// Returns the interval of the share of events after `k` of `n` trials, with at least the given
/// confidence; 0 to 1 without a trial.
///
/// ```
/// use jitterstat::stats::binomial::share_interval;
/// let share = share_interval(0, 1_000, 0.95);
/// assert!(share.lower == 0.0 && (share.upper - 0.003_68).abs() < 1e-5);
/// ```
#[must_use]
pub fn share_interval(k: u64, n: u64, confidence: f64) -> Interval<f64> {
    let one_sided = f64::midpoint(1.0, confidence);
    Interval { lower: lower_bound(k, n, one_sided), upper: upper_bound(k, n, one_sided) }
}

/// Returns the bound below which the share of events is after `k` of `n` trials, with at least the
/// given confidence; 1 without a trial.
///
/// ```
/// use jitterstat::stats::binomial::upper_bound;
/// // The rule of three: 3 in n after n trials without an event.
/// assert!((upper_bound(0, 1_000, 0.95) - 0.003).abs() < 1e-5);
/// ```
#[must_use]
pub fn upper_bound(k: u64, n: u64, confidence: f64) -> f64 {
    if k >= n { 1.0 } else { share_with(k, n, 1.0 - confidence) }
}

/// Returns the bound above which the share of events is after `k` of `n` trials, with at least the
/// given confidence; 0 without an event.
#[must_use]
pub fn lower_bound(k: u64, n: u64, confidence: f64) -> f64 {
    match k.min(n).checked_sub(1) {
        Some(fewer) => share_with(fewer, n, confidence),
        None => 0.0,
    }
}

/// Maximum number of trials whose probabilities are added up.
const MAX_SUMMED_TRIALS: u64 = 1_000_000_000;
/// Number of events, and of trials without one, up to which their number is a Poisson number if
/// there are more trials than that.
const MAX_RARE_EVENTS: u64 = 100_000;

/// Returns the share of events at which at most `k` of `n` have the probability `wanted`; `k` is
/// less than `n`.
fn share_with(k: u64, n: u64, wanted: f64) -> f64 {
    let others = n - k - 1;
    if n <= MAX_SUMMED_TRIALS {
        summed_share(k, n, wanted)
    } else if k.min(others) > MAX_RARE_EVENTS {
        approximate_share(k, n, wanted)
    } else if k < others {
        // The bound of the number of rare events does not depend on the number of trials.
        let bound = summed_share(k, MAX_SUMMED_TRIALS, wanted) * MAX_SUMMED_TRIALS as f64;
        bound / n as f64
    } else {
        1.0 - share_with(others, n, 1.0 - wanted)
    }
}

/// Computes the share of [`share_with`] from sums of probabilities.
fn summed_share(k: u64, n: u64, wanted: f64) -> f64 {
    let ln_ways = ln_factorial(n) - ln_factorial(k) - ln_factorial(n - k);
    let (mut low, mut high) = (0.0, 1.0);
    for _ in 0..60 {
        let middle = f64::midpoint(low, high);
        if at_most(k, n, middle, ln_ways) > wanted { low = middle } else { high = middle }
    }
    f64::midpoint(low, high)
}

/// Approximates the share of [`share_with`] for large `k` and `n - k`.
fn approximate_share(k: u64, n: u64, wanted: f64) -> f64 {
    // The share is a quantile of the beta distribution with these parameters.
    let (a, b) = (k as f64 + 1.0, (n - k) as f64);
    let y = normal_quantile(wanted);
    let (inverse_a, inverse_b) = (1.0 / (2.0 * a - 1.0), 1.0 / (2.0 * b - 1.0));
    let h = 2.0 / (inverse_a + inverse_b);
    let lambda = (y * y - 3.0) / 6.0;
    let w = y * (h + lambda).sqrt() / h
        - (inverse_b - inverse_a) * (lambda + 5.0 / 6.0 - 2.0 / (3.0 * h));
    a / (a + b * (2.0 * w).exp())
}

/// Returns the number below which a standard normal number is with this probability.
fn normal_quantile(probability: f64) -> f64 {
    let (mut low, mut high) = (-8.0, 8.0);
    for _ in 0..50 {
        let middle = f64::midpoint(low, high);
        if normal_cdf(middle) < probability { low = middle } else { high = middle }
    }
    f64::midpoint(low, high)
}

/// Returns the probability that a standard normal number is below `z`, by the series 26.2.11 of
/// Abramowitz and Stegun.
fn normal_cdf(z: f64) -> f64 {
    let (mut term, mut sum) = (z, z);
    for i in 1..200 {
        term *= z * z / f64::from(2 * i + 1);
        sum += term;
    }
    0.5 + sum * (-z * z / 2.0).exp() / (2.0 * PI).sqrt()
}

/// Returns P(Bin(n, p) ≤ k), given the logarithm of the number of ways to choose `k` of `n`.
fn at_most(k: u64, n: u64, p: f64, ln_ways: f64) -> f64 {
    // In logarithms, because p^k and (1 - p)^n underflow.
    let ln_term = ln_ways + k as f64 * p.ln() + (n - k) as f64 * (-p).ln_1p();
    let (term, odds) = (ln_term.exp(), p / (1.0 - p));
    // The terms of the smaller tail decrease from its first one.
    if (k as f64) < n as f64 * p {
        sum_down(k, n, odds, term)
    } else {
        1.0 - sum_above(k, n, odds, term)
    }
}

/// A term below this part of the sum does not change it any more.
const NEGLIGIBLE: f64 = 1e-17;

/// Adds up P(k), P(k - 1) and so on, given P(k).
fn sum_down(k: u64, n: u64, odds: f64, mut term: f64) -> f64 {
    let mut sum = term;
    for j in (0..k).rev() {
        term *= (j + 1) as f64 / ((n - j) as f64 * odds);
        sum += term;
        if term <= sum * NEGLIGIBLE {
            break;
        }
    }
    sum
}

/// Adds up P(k + 1), P(k + 2) and so on, given P(k).
fn sum_above(k: u64, n: u64, odds: f64, mut term: f64) -> f64 {
    let mut sum = 0.0;
    for j in k..n {
        term *= (n - j) as f64 / (j + 1) as f64 * odds;
        sum += term;
        if term <= sum * NEGLIGIBLE {
            break;
        }
    }
    sum
}

/// Returns the natural logarithm of n!: exact products up to 31, then Stirling's series.
fn ln_factorial(n: u64) -> f64 {
    if n < 32 {
        return (1..=n).map(|i| i as f64).product::<f64>().ln();
    }
    let (n, inverse) = (n as f64, 1.0 / n as f64);
    let square = inverse * inverse;
    let correction = inverse * (1.0 / 12.0 - square * (1.0 / 360.0 - square / 1260.0));
    (n + 0.5) * n.ln() - n + 0.5 * (2.0 * PI).ln() + correction
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals_match_published_tables() {
        for (k, n, [lower, upper]) in [
            (0, 10, [0.0, 0.3085]),
            (1, 10, [0.0025, 0.4450]),
            (5, 10, [0.1871, 0.8129]),
            (10, 10, [0.6915, 1.0]),
        ] {
            let found = share_interval(k, n, 0.95);
            assert!(
                (found.lower - lower).abs() < 1e-4 && (found.upper - upper).abs() < 1e-4,
                "{k} of {n}: {found:?}"
            );
        }
        let Interval { lower, upper } = share_interval(5_000, 10_000, 0.95);
        assert!((lower - 0.4902).abs() < 2e-4 && (upper - 0.5098).abs() < 2e-4, "{lower} {upper}");
        assert_eq!(share_interval(0, 0, 0.95), Interval { lower: 0.0, upper: 1.0 });
    }

    #[test]
    fn bounds_invert_the_tails() {
        // The probability of at most, or at least, as many events is the rest of the confidence.
        let tail = |k: u64, n: u64, p: f64| -> f64 {
            let mut sum = 0.0;
            for j in 0..=k {
                let ln_ways = ln_factorial(n) - ln_factorial(j) - ln_factorial(n - j);
                sum += (ln_ways + j as f64 * p.ln() + (n - j) as f64 * (-p).ln_1p()).exp();
            }
            sum
        };
        for (k, n) in [(1, 20), (7, 40), (39, 40), (50, 2_000), (1_900, 2_000), (3, 400_000)] {
            let (upper, lower) = (upper_bound(k, n, 0.95), lower_bound(k, n, 0.995));
            assert!((tail(k, n, upper) - 0.05).abs() < 1e-6, "{k} of {n}: {upper}");
            assert!((1.0 - tail(k - 1, n, lower) - 0.005).abs() < 1e-6, "{k} of {n}: {lower}");
        }
        assert_eq!((upper_bound(4, 4, 0.9), lower_bound(0, 4, 0.9)), (1.0, 0.0));
        assert_eq!((upper_bound(0, 0, 0.9), lower_bound(0, 0, 0.9)), (1.0, 0.0));
    }

    #[test]
    fn normal_quantiles_match_published_tables() {
        for (probability, z) in
            [(0.5, 0.0), (0.975, 1.959_963_985), (0.01, -2.326_347_874), (1e-6, -4.753_424_309)]
        {
            let found = normal_quantile(probability);
            assert!((found - z).abs() < 1e-8, "{probability}: {found}");
        }
    }

    /// Up to a billion trials, both methods are available.
    #[test]
    fn approximations_match_the_sums() {
        let n = MAX_SUMMED_TRIALS;
        for wanted in [0.025, 0.95, 0.999_5] {
            let check = |k: u64, n: u64, found: f64| {
                let (summed, share) = (summed_share(k, n, wanted), k as f64 / n as f64);
                let relative = (found - summed) / (summed - share);
                assert!(relative.abs() < 1e-4, "{k} of {n}, {wanted}: {found} {summed}");
            };
            for k in [MAX_RARE_EVENTS, n / 1_000, n / 3, n - n / 1_000] {
                check(k, n, approximate_share(k, n, wanted));
            }
            // A number of rare events in a tenth of the trials.
            for k in [0, 1, 40, MAX_RARE_EVENTS / 100] {
                check(k, n / 10, summed_share(k, n, wanted) * 10.0);
            }
        }
    }

    #[test]
    fn largest_counts_have_bounds() {
        for n in [1_u64 << 44, u64::MAX] {
            let distance = 1.96 / (4.0 * n as f64).sqrt();
            let half = share_interval(n / 2, n, 0.95).map(|bound| (bound - 0.5) / distance);
            assert!((half.lower + 1.0).abs() < 1e-4 && (half.upper - 1.0).abs() < 1e-4, "{half:?}");
            // The bounds of one event, by a table of the Poisson distribution, and of all but one.
            let one = share_interval(1, n, 0.95).map(|bound| bound * n as f64);
            assert!((one.lower - 0.0253).abs() < 1e-4 && (one.upper - 5.5716).abs() < 1e-3);
            let most = share_interval(n - 1, n, 0.95);
            assert!(most.lower >= 1.0 - 5.572 / n as f64 - f64::EPSILON && most.upper <= 1.0);
            assert_eq!(share_interval(n, n, 0.95).upper, 1.0);
        }
    }

    #[test]
    fn stirling_continues_the_products() {
        let product: f64 = (1..=40_u32).map(|i| f64::from(i).ln()).sum();
        assert!((ln_factorial(40) - product).abs() < 1e-11);
        let step = ln_factorial(32) - ln_factorial(31);
        assert!((step - 32_f64.ln()).abs() < 1e-12, "{step}");
        assert_eq!([ln_factorial(0), ln_factorial(1)], [0.0, 0.0]);
    }
}
