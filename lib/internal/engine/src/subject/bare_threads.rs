//! Bare threads, which show the timing that the machine can currently provide.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use cli::units::format_exact_ns;
use files::fitness::SPIN_LEAD_NS;
use files::report::Change;

use crate::machine::os;
use crate::subject::sliced_wait;
use crate::subject::ticker::{Schedule, Subject, Ticker};

/// A thread that sleeps until each deadline: on Linux with `clock_nanosleep` in absolute mode.
pub struct Nanosleep {
    schedule: Schedule,
    sleeper: os::Sleeper,
    slack: MinSlack,
}

/// Lowers the timer slack of the thread of a ticker, and restores it when the ticker is dropped,
/// since the next subject may run on this thread.
pub(crate) struct MinSlack {
    inherited_ns: Option<u64>,
    /// As read back: a real-time thread has none.
    applied_ns: Option<u64>,
}

impl MinSlack {
    pub(crate) fn new() -> io::Result<Self> {
        let inherited_ns = os::timer_slack_ns();
        // Not every system has timer slack.
        if inherited_ns.is_some() {
            os::set_timer_slack_ns(CONTROL_SLACK_NS)?;
        }
        Ok(Self { inherited_ns, applied_ns: os::timer_slack_ns() })
    }

    /// Returns the change of the slack since it was lowered, which another program made.
    pub(crate) fn change(&self) -> Option<Change> {
        let (from, to) = (self.applied_ns?, os::timer_slack_ns()?);
        (from != to).then(|| Change {
            what: "timer slack".to_owned(),
            from: format_exact_ns(from),
            to: format_exact_ns(to),
        })
    }
}

impl Drop for MinSlack {
    fn drop(&mut self) {
        if let Some(slack_ns) = self.inherited_ns {
            let _ = os::set_timer_slack_ns(slack_ns);
        }
    }
}

/// Sleeps until the deadline of a tick or until the end of a slice.
fn sleep(
    schedule: Schedule,
    next: u64,
    until: impl FnOnce(Instant) -> io::Result<()>,
) -> Poll<io::Result<()>> {
    let deadline = schedule.deadline(next);
    match sliced_wait::slice_end(schedule.period, deadline) {
        Some(slice) => {
            until(slice).map_or_else(|error| Poll::Ready(Err(error)), |()| Poll::Pending)
        }
        None => Poll::Ready(until(deadline)),
    }
}

/// Timer slack of the control: the minimum that the kernel accepts.
pub const CONTROL_SLACK_NS: u64 = 1;

impl Subject for Nanosleep {
    type Ticker = Self;

    fn ticker(schedule: Schedule) -> io::Result<Self> {
        Ok(Self { schedule, sleeper: os::Sleeper::new()?, slack: MinSlack::new()? })
    }
}

impl Ticker for Nanosleep {
    type Event = ();

    #[inline]
    fn poll_wait(self: Pin<&mut Self>, next: u64, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        sleep(self.schedule, next, |until| self.sleeper.sleep_until(until))
    }

    fn backend(&self) -> String {
        os::Sleeper::BACKEND.to_owned()
    }

    fn setting_change(&self) -> Option<Change> {
        self.slack.change()
    }
}

/// A thread that waits for its deadline in `io_uring_enter`, for which timer slack does not apply.
pub struct IoUringWait {
    schedule: Schedule,
    sleeper: os::RingSleeper,
}

impl Subject for IoUringWait {
    type Ticker = Self;

    fn ticker(schedule: Schedule) -> io::Result<Self> {
        Ok(Self { schedule, sleeper: os::RingSleeper::new()? })
    }
}

impl Ticker for IoUringWait {
    type Event = ();

    #[inline]
    fn poll_wait(self: Pin<&mut Self>, next: u64, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        sleep(self.schedule, next, |until| self.sleeper.sleep_until(until))
    }

    fn backend(&self) -> String {
        os::RingSleeper::BACKEND.to_owned()
    }
}

/// A busy loop on the kernel's clock.
pub struct Spin {
    schedule: Schedule,
}

/// Time before the first deadline at which the thread stops sleeping and starts to spin.
const SPIN_LEAD: Duration = Duration::from_nanos(SPIN_LEAD_NS);

impl Subject for Spin {
    type Ticker = Self;

    fn ticker(schedule: Schedule) -> io::Result<Self> {
        Ok(Self { schedule })
    }
}

impl Ticker for Spin {
    type Event = ();

    #[allow(clippy::disallowed_methods, reason = "this control is a loop over the clock")]
    #[inline]
    fn poll_wait(self: Pin<&mut Self>, next: u64, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        let deadline = self.schedule.deadline(next);
        if next == 0 {
            let lead = deadline.checked_sub(SPIN_LEAD).unwrap_or(deadline);
            let slice = sliced_wait::slice_end(self.schedule.period, lead);
            std::thread::sleep(slice.unwrap_or(lead).saturating_duration_since(Instant::now()));
            if slice.is_some() {
                return Poll::Pending;
            }
        }
        let slice = sliced_wait::slice_end(self.schedule.period, deadline);
        let until = slice.unwrap_or(deadline);
        while Instant::now() < until {
            std::hint::spin_loop();
        }
        if slice.is_some() { Poll::Pending } else { Poll::Ready(Ok(())) }
    }

    fn backend(&self) -> String {
        "busy loop".to_owned()
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    /// Runs the test in a thread of its own, whose slack no other test changes.
    fn in_thread<T: Send>(test: impl FnOnce() -> T + Send) -> T {
        std::thread::scope(|scope| scope.spawn(test).join().unwrap())
    }

    #[test]
    fn changed_slack_is_found() {
        #[allow(clippy::disallowed_methods, reason = "the start of a grid without a tick")]
        let schedule = Schedule { start: Instant::now(), period: Duration::from_millis(1) };
        let changes = in_thread(|| {
            os::set_timer_slack_ns(777).unwrap();
            let ticker = Nanosleep::ticker(schedule).unwrap();
            let unchanged = ticker.setting_change();
            // The inherited slack is a change as well.
            os::set_timer_slack_ns(777).unwrap();
            let changed = ticker.setting_change();
            drop(ticker);
            assert_eq!(os::timer_slack_ns(), Some(777));
            [unchanged, changed]
        });
        let shown = changes.map(|change| change.map(|c| [c.what, c.from, c.to].join(" ")));
        assert_eq!(shown, [None, Some("timer slack 1ns 777ns".to_owned())]);
    }
}
