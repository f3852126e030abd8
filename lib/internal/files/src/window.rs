//! Times that were counted over a window.

/// A time that was counted over a window, such as CPU time or stolen time.
///
/// Both parts are set at once and added together, so that a share is never that of another window.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TimeInWindow {
    time_ns: u64,
    window_ns: u64,
}

impl TimeInWindow {
    /// Creates the time that was counted from the start to the end of a window.
    #[must_use]
    pub const fn new(time_ns: u64, window_ns: u64) -> Self {
        Self { time_ns, window_ns }
    }

    /// Returns the time.
    #[must_use]
    pub const fn time_ns(self) -> u64 {
        self.time_ns
    }

    /// Returns the length of the window.
    #[must_use]
    pub const fn window_ns(self) -> u64 {
        self.window_ns
    }

    /// Returns the time as a share of the window, which for CPU time is that of one core; `None` if
    /// the window is empty.
    #[must_use]
    pub fn share(self) -> Option<f64> {
        self.share_of_cpus(1)
    }

    /// Returns the time as a share of the time that a number of CPUs have in the window.
    #[must_use]
    pub fn share_of_cpus(self, cpus: u64) -> Option<f64> {
        let available_ns = self.window_ns as f64 * cpus.max(1) as f64;
        if available_ns > 0.0 { Some(self.time_ns as f64 / available_ns) } else { None }
    }
}

impl std::ops::Add for TimeInWindow {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self {
            time_ns: self.time_ns.saturating_add(other.time_ns),
            window_ns: self.window_ns.saturating_add(other.window_ns),
        }
    }
}

impl std::iter::Sum for TimeInWindow {
    fn sum<I: Iterator<Item = Self>>(times: I) -> Self {
        times.fold(Self::default(), |sum, time| sum + time)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_belong_to_their_window() {
        let short = TimeInWindow::new(20, 100);
        let long = TimeInWindow::new(0, 300);
        assert_eq!(
            [short, long, short + long].map(TimeInWindow::share),
            [0.2, 0.0, 0.05].map(Some)
        );
        assert_eq!([short, long].into_iter().sum::<TimeInWindow>().share_of_cpus(2), Some(0.025));
        assert_eq!(TimeInWindow::default().share(), None);
        assert_eq!(TimeInWindow::new(7, 0).share(), None);
    }
}
