//! The table of subjects: every fact about everything that can be measured by name.
//!
//! A report contains only the names of its subjects, so that old reports have the roles and the
//! signs of this version. A row ends with the type that implements the subject. The types are in
//! the engine, which receives the rows with [`with_subject_rows!`](crate::with_subject_rows).

use Colour::{Black, Blue, Green, Grey, Orange, Pink, Sky, Vermilion};
use DefaultSelection::{Calibrate, Monitor, Program, Prove, Run};
use WaitKind::{Sleep, Spin, Timer, Wheel};

/// A subject.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SubjectInfo {
    /// Name on the command line and in reports.
    pub name: &'static str,
    /// Description for `osjitter list`.
    pub about: &'static str,
    /// Runtime or thread on which it runs.
    pub runtime_kind: RuntimeKind,
    /// Wait of its thread until a tick is due.
    pub wait_kind: WaitKind,
    /// Whether it competes or is a control.
    pub role: SubjectRole,
    /// The selections that include it if no subject is named.
    pub defaults: &'static [DefaultSelection],
    /// Colour and number of the form of its curves. Unless set, they follow from the name.
    pub sign: Option<(Colour, usize)>,
    /// Name of the subject that is the same ticker in its precise mode.
    pub precise_mode: Option<&'static str>,
    /// Whether a missed tick delays all later deadlines.
    pub delays_grid: bool,
}

impl SubjectInfo {
    /// Returns whether it shows the state of the machine and is not ranked.
    #[must_use]
    pub fn is_control(&self) -> bool {
        self.role != SubjectRole::Competitor
    }

    /// Returns whether a selection includes it.
    #[must_use]
    pub fn is_default_of(&self, selection: DefaultSelection) -> bool {
        self.defaults.contains(&selection)
    }
}

/// Runtime or thread on which a subject runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RuntimeKind {
    /// A spawned task of a tokio runtime.
    Tokio,
    /// A spawned task of a busypoll runtime.
    Busypoll,
    /// A bare thread.
    Thread,
    /// None; the rounds are read from a file.
    Script,
}

impl RuntimeKind {
    /// Returns whether `--runtime` and `--instances` apply.
    #[must_use]
    pub fn has_runtime(self) -> bool {
        matches!(self, Self::Tokio | Self::Script)
    }
}

/// Kind of wait of a thread until a tick is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WaitKind {
    /// A timer of the kernel, to which timer slack does not apply.
    Timer,
    /// A timeout of the kernel in whole milliseconds, computed by a wheel of milliseconds.
    Wheel,
    /// A sleep of the kernel.
    Sleep,
    /// A busy loop on the clock.
    Spin,
}

/// SubjectRole of a subject in a report.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SubjectRole {
    /// A ticker that programs can use. Competitors are ranked.
    Competitor,
    /// The bare thread that sleeps: the control of the gate and of comparisons, and the reference
    /// for the settings of other subjects.
    SleepingControl,
    /// The bare thread that spins, which observes the stalls of the machine.
    SpinningControl,
}

/// A selection of subjects that applies if none is named.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DefaultSelection {
    /// `osjitter run`.
    Run,
    /// `osjitter run` with a program of the user.
    Program,
    /// `osjitter doctor --prove`.
    Prove,
    /// `osjitter calibrate`, which measures one subject.
    Calibrate,
    /// `osjitter monitor`.
    Monitor,
}

/// A colour of Okabe and Ito's set, "Color Universal Design", 2008, with grey instead of yellow, which
/// fades on white.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "their names are the colours")]
pub enum Colour {
    Blue,
    Orange,
    Green,
    Pink,
    Sky,
    Vermilion,
    Black,
    Grey,
}

/// The columns of most subjects.
const COMPETITOR: SubjectInfo = SubjectInfo {
    name: "",
    about: "",
    runtime_kind: RuntimeKind::Tokio,
    wait_kind: Timer,
    role: SubjectRole::Competitor,
    defaults: &[],
    sign: None,
    precise_mode: None,
    delays_grid: false,
};

/// Calls the macro `$build` with the rows of the table, in the order of `osjitter list`, followed by
/// the rows `$added`.
///
/// A row is `{ columns } runtime type;`. Subjects measured by default have different colours,
/// subjects whose curves tend to coincide have different dashes, and variants of a subject share
/// its colour.
#[macro_export]
macro_rules! with_subject_rows {
    ($build:ident $($added:tt)*) => {
        $build! {
            {
                name: "os-interval",
                about: "OsInterval: a one-shot timer of the kernel, armed for each tick (Burst)",
                defaults: &[Run, Program, Prove, Calibrate, Monitor],
                sign: Some((Blue, 0)),
                precise_mode: Some("os-interval-precise"),
                ..COMPETITOR
            } Tokio os_interval::OneShot<behaviour::Burst>;
            {
                name: "os-interval-delay",
                about: "like os-interval, with missed-tick behaviour Delay",
                sign: Some((Blue, 4)),
                delays_grid: true,
                ..COMPETITOR
            } Tokio os_interval::OneShot<behaviour::Delay>;
            {
                name: "os-interval-skip",
                about: "like os-interval, with missed-tick behaviour Skip",
                sign: Some((Blue, 8)),
                ..COMPETITOR
            } Tokio os_interval::OneShot<behaviour::Skip>;
            {
                name: "os-interval-precise",
                about: "OsInterval in precise mode: wakes up early by a learnt time, then spins until the deadline",
                defaults: &[Run],
                sign: Some((Green, 2)),
                ..COMPETITOR
            } Tokio os_interval::Precise<os_interval::DefaultShare>;
            {
                name: "os-interval-spin",
                about: "like os-interval-precise, without its limit of 20 % of a period: punctual at p90 even at short periods",
                sign: Some((Green, 7)),
                ..COMPETITOR
            } Tokio os_interval::Precise<os_interval::WholePeriod>;
            {
                name: "os-interval-group",
                about: "an interval of an IntervalGroup: one timer for all intervals, in slots of 100 us",
                sign: Some((Blue, 5)),
                ..COMPETITOR
            } Tokio os_interval::Grouped;
            {
                name: "os-interval-blocking",
                about: "blocking::Interval of osinterval: a thread without a runtime (Burst)",
                wait_kind: Sleep,
                sign: Some((Blue, 2)),
                precise_mode: Some("os-interval-blocking-precise"),
                ..COMPETITOR
            } Thread os_interval::Blocking;
            {
                name: "os-interval-blocking-precise",
                about: "like os-interval-blocking, in precise mode",
                wait_kind: Sleep,
                sign: Some((Green, 5)),
                ..COMPETITOR
            } Thread os_interval::BlockingPrecise;
            {
                name: "os-sleep",
                about: "osinterval::sleep_until: a new Sleep for each tick, one timer for the whole runtime",
                sign: Some((Blue, 1)),
                ..COMPETITOR
            } Tokio per_tick::PerTick<osinterval::Sleep>;
            {
                name: "os-timeout",
                about: "osinterval::timeout_at around a future that never ends",
                sign: Some((Blue, 6)),
                ..COMPETITOR
            } Tokio per_tick::PerTick<osinterval::Timeout<std::future::Pending<()>>>;
            {
                name: "periodic-interval",
                about: "PeriodicInterval: a periodic timer of the kernel",
                defaults: &[Run],
                sign: Some((Sky, 4)),
                ..COMPETITOR
            } Tokio os_interval::KernelPeriodic;
            {
                name: "tokio-interval",
                about: "tokio::time::Interval (Burst)",
                wait_kind: Wheel,
                defaults: &[Run, Program, Prove],
                sign: Some((Vermilion, 2)),
                ..COMPETITOR
            } Tokio tokio_timers::Interval<behaviour::Burst>;
            {
                name: "tokio-interval-delay",
                about: "like tokio-interval, with missed-tick behaviour Delay",
                wait_kind: Wheel,
                sign: Some((Vermilion, 4)),
                delays_grid: true,
                ..COMPETITOR
            } Tokio tokio_timers::Interval<behaviour::Delay>;
            {
                name: "tokio-interval-skip",
                about: "like tokio-interval, with missed-tick behaviour Skip",
                wait_kind: Wheel,
                sign: Some((Vermilion, 6)),
                ..COMPETITOR
            } Tokio tokio_timers::Interval<behaviour::Skip>;
            {
                name: "tokio-sleep",
                about: "tokio::time::sleep_until: a new Sleep for each tick",
                wait_kind: Wheel,
                sign: Some((Orange, 0)),
                ..COMPETITOR
            } Tokio per_tick::PerTick<tokio::time::Sleep>;
            {
                name: "tokio-sleep-reused",
                about: "tokio::time::Sleep: one that is pinned and reset at each tick",
                wait_kind: Wheel,
                defaults: &[Run],
                sign: Some((Orange, 4)),
                ..COMPETITOR
            } Tokio tokio_timers::SleepReused;
            {
                name: "tokio-sleep-reused-boxed",
                about: "like tokio-sleep-reused, in a Pin<Box<Sleep>>",
                wait_kind: Wheel,
                sign: Some((Orange, 8)),
                ..COMPETITOR
            } Tokio tokio_timers::SleepReusedBoxed;
            {
                name: "tokio-timeout",
                about: "tokio::time::timeout_at around a future that never ends",
                wait_kind: Wheel,
                defaults: &[Run],
                sign: Some((Pink, 6)),
                ..COMPETITOR
            } Tokio per_tick::PerTick<tokio::time::Timeout<std::future::Pending<()>>>;
            {
                name: "tokio-busy",
                about: "tokio without parking: a task that yields until the clock reaches the deadline",
                wait_kind: Spin,
                sign: Some((Pink, 1)),
                ..COMPETITOR
            } Tokio busy_tokio::Yielding;
            {
                name: "tokio-busy-interval",
                about: "tokio::time::Interval on a runtime with a task that only yields: never parks, but keeps the timer wheel of 1 ms",
                wait_kind: Spin,
                sign: Some((Pink, 5)),
                ..COMPETITOR
            } Tokio busy_tokio::IntervalWithYieldingTask;
            {
                name: "busypoll-interval",
                about: "busypoll's interval on a runtime that spins and never parks",
                wait_kind: Spin,
                sign: Some((Sky, 6)),
                ..COMPETITOR
            } Busypoll busypoll_interval::Interval<busypoll_interval::Spinning>;
            {
                name: "busypoll-parked",
                about: "busypoll's interval on a runtime that parks until the next tick",
                sign: Some((Sky, 1)),
                ..COMPETITOR
            } Busypoll busypoll_interval::Interval<busypoll_interval::Parked>;
            {
                name: "busypoll-io-uring",
                about: "like busypoll-parked, in io_uring_enter (Linux 6.12)",
                sign: Some((Sky, 5)),
                ..COMPETITOR
            } Busypoll busypoll_interval::Interval<busypoll_interval::ParkedOnIoUring>;
            {
                name: "nanosleep",
                about: "control: a thread that sleeps (Linux: absolute clock_nanosleep with a timer slack of 1 ns)",
                wait_kind: Sleep,
                role: SubjectRole::SleepingControl,
                defaults: &[Run, Program, Monitor],
                sign: Some((Grey, 3)),
                ..COMPETITOR
            } Thread bare_threads::Nanosleep;
            {
                name: "io-uring-wait",
                about: "a thread that waits in io_uring_enter until an absolute deadline (Linux 6.12)",
                sign: Some((Grey, 8)),
                ..COMPETITOR
            } Thread bare_threads::IoUringWait;
            {
                name: "spin",
                about: "control: a thread that spins on the kernel's clock",
                wait_kind: Spin,
                role: SubjectRole::SpinningControl,
                defaults: &[Run, Program],
                sign: Some((Black, 7)),
                ..COMPETITOR
            } Thread bare_threads::Spin;
            $($added)*
        }
    };
}

macro_rules! subject_infos {
    ($({ $($columns:tt)* } $runtime:ident $implementation:ty;)*) => {
        &[$(SubjectInfo { runtime_kind: RuntimeKind::$runtime, $($columns)* }),*]
    };
}

/// Every subject that `osjitter list` lists, in its order.
pub const SUBJECTS: &[SubjectInfo] = with_subject_rows!(subject_infos);

/// Hidden subjects for tests of the program, whose rounds are read from a file.
pub const SCRIPTED: &[SubjectInfo] = &[
    SubjectInfo { name: "scripted", sign: Some((Green, 4)), ..SCRIPT },
    SubjectInfo { name: "scripted-b", ..SCRIPT },
    SubjectInfo { name: "scripted-c", ..SCRIPT },
];
/// The columns of a subject without a thread.
const SCRIPT: SubjectInfo =
    SubjectInfo { about: "plays a script", runtime_kind: RuntimeKind::Script, ..COMPETITOR };

/// The control of sessions of the gate and of comparisons.
pub const SLEEPING_CONTROL: &SubjectInfo = find_role(SubjectRole::SleepingControl);
/// The control that observes stalls.
pub const SPINNING_CONTROL: &SubjectInfo = find_role(SubjectRole::SpinningControl);

/// Returns the first subject with a role. The compiler evaluates it, so it has no iterator.
const fn find_role(role: SubjectRole) -> &'static SubjectInfo {
    let mut i = 0;
    while SUBJECTS[i].role as u8 != role as u8 {
        i += 1;
    }
    &SUBJECTS[i]
}

/// Returns the subject of a name, which may be a hidden one.
#[must_use]
pub fn find(name: &str) -> Option<&'static SubjectInfo> {
    SUBJECTS.iter().chain(SCRIPTED).find(|subject| subject.name == name)
}

/// Returns whether a name is that of a control.
#[must_use]
pub fn is_control(name: &str) -> bool {
    find(name).is_some_and(SubjectInfo::is_control)
}

/// Returns the subjects of a selection, in the order of the table.
pub fn defaults_of(
    selection: DefaultSelection,
) -> impl Iterator<Item = &'static SubjectInfo> + Clone {
    SUBJECTS.iter().filter(move |subject| subject.is_default_of(selection))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn names_and_controls_are_unique() {
        let names: BTreeSet<&str> = SUBJECTS.iter().chain(SCRIPTED).map(|s| s.name).collect();
        assert_eq!(names.len(), SUBJECTS.len() + SCRIPTED.len());
        let controls: Vec<&SubjectInfo> = SUBJECTS.iter().filter(|s| s.is_control()).collect();
        assert_eq!(controls, [SLEEPING_CONTROL, SPINNING_CONTROL]);
        assert_eq!(defaults_of(Calibrate).count(), 1);
    }

    #[test]
    fn row_adds_a_subject() {
        const WITH_ADDED: &[SubjectInfo] = with_subject_rows! {
            subject_infos {
                name: "added",
                role: SubjectRole::SpinningControl,
                defaults: &[Run],
                ..COMPETITOR
            } Thread AddedTicker;
        };
        let (added, others) = WITH_ADDED.split_last().unwrap();
        assert_eq!(others, SUBJECTS);
        assert_eq!((added.name, added.runtime_kind), ("added", RuntimeKind::Thread));
        assert!(added.is_control() && added.is_default_of(Run));
    }

    #[test]
    fn precise_modes_are_subjects() {
        for subject in SUBJECTS {
            let precise = subject.precise_mode.map(|name| find(name).expect(name).name);
            assert_eq!(precise, subject.precise_mode);
        }
    }
}
