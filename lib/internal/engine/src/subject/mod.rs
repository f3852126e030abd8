//! The subjects: everything that can be measured. Only this module depends on their types.
//!
//! A [`Subject`] creates a new [`Ticker`](ticker::Ticker) for each round. The measuring loop is
//! generic over the subject. The table of subjects in [`files::subjects`] names the type of each
//! subject; the functions that are compiled for it are found by name outside the loop, so there is
//! no boxed future and no dynamic call between a wake-up and its time stamp.

pub(crate) mod bare_threads;
pub(crate) mod behaviour;
pub(crate) mod busy_tokio;
pub(crate) mod busypoll_interval;
pub(crate) mod os_interval;
pub(crate) mod per_tick;
pub mod script;
pub mod sliced_wait;
pub mod target;
pub mod ticker;
pub(crate) mod tokio_timers;

use std::io;
use std::marker::PhantomData;
use std::time::{Duration, Instant};

use files::subjects::SLEEPING_CONTROL;

use crate::panics::{RuntimePanic, catch_panic};

use ticker::{Schedule, Subject};

pub use bare_threads::CONTROL_SLACK_NS;
pub use busypoll_interval::OnBusypoll;
pub use files::subjects::{RuntimeKind, SUBJECTS as ALL, SubjectInfo, WaitKind};

/// The functions of subject `S` on a tokio runtime. A row of the table names it and the two below.
pub struct Tokio<S>(PhantomData<S>);
/// The functions of subject `S` on a busypoll runtime.
pub struct Busypoll<S>(PhantomData<S>);
/// The functions of subject `S` on a bare thread.
pub struct Thread<S>(PhantomData<S>);

impl<S: Subject> Tokio<S> {
    fn check() -> io::Result<()> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        runtime.block_on(async { create_ticker::<S>() })
    }
}

impl<S: OnBusypoll> Busypoll<S> {
    fn check() -> io::Result<()> {
        S::runtime()?.block_on(async { create_ticker::<S>() })
    }
}

impl<S: Subject> Thread<S> {
    fn check() -> io::Result<()> {
        create_ticker::<S>()
    }
}

#[allow(clippy::disallowed_methods, reason = "a start for a ticker that is dropped at once")]
fn create_ticker<S: Subject>() -> io::Result<()> {
    let schedule = Schedule { start: Instant::now(), period: Duration::from_millis(1) };
    S::ticker(schedule).map(drop)
}

macro_rules! subject_checks {
    ($({ name: $name:literal, $($_:tt)* } $runtime:ident $implementation:ty;)*) => {
        &[$(($name, $runtime::<$implementation>::check)),*]
    };
}

/// Creates a ticker.
type Check = fn() -> io::Result<()>;

const CHECKS: &[(&str, Check)] = files::with_subject_rows!(subject_checks);

/// Creates a ticker to check whether a subject can run here.
///
/// # Errors
///
/// Returns the reason if the subject cannot run, or is a hidden one.
pub fn check_available(subject: &SubjectInfo) -> Result<(), SubjectUnavailable> {
    let (_, check) =
        CHECKS.iter().find(|(name, _)| *name == subject.name).ok_or(SubjectUnavailable::Hidden)?;
    // A timer that cannot be created is reported by a panic if its interface has no error.
    catch_panic(check).map_err(SubjectUnavailable::Panicked)?.map_err(SubjectUnavailable::NoTicker)
}

/// Reason why a subject cannot run here.
#[derive(Debug, thiserror::Error)]
pub enum SubjectUnavailable {
    /// The subject has no type that could be tried.
    #[error("unknown subject")]
    Hidden,
    #[error(transparent)]
    Panicked(RuntimePanic),
    #[error(transparent)]
    NoTicker(io::Error),
}

/// Returns the control of a subject in a session of the gate: a bare thread that sleeps.
pub fn control_for(subject: &SubjectInfo) -> &'static SubjectInfo {
    if subject.runtime_kind == RuntimeKind::Script { &script::CONTROL } else { SLEEPING_CONTROL }
}
