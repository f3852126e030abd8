//! What a program wrote where it was told to: read with a bound that is known from what was asked
//! of it.

use std::io::Read;
use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use files::file::File as _;
use files::report::Report;
use jitterstat::series::{self, Metric, Reader};

use crate::machine::os::{self, TreeUsage};
use crate::measure::child::{self, RunFailure, RunRequest};
use crate::program::Program;
use cli::units;

/// A line of a series: a sign, 19 digits, two more numbers of 20, spaces between, the line's end.
const LINE_BYTES: u64 = 64;
/// A tick of a report, in a round of its own with its summary.
const TICK_BYTES: u64 = 4 << 10;
/// What either has besides: a header, a host, a histogram.
const OTHER_BYTES: u64 = 1 << 20;

/// Metrics are read in bounded memory, from a file of at most so many bytes: tens of millions of
/// samples.
const METRICS_BYTES: u64 = 1 << 30;

/// Everything that one round of a program produced.
#[derive(Debug)]
pub struct ProgramRound {
    pub series: Reader,
    /// Just before it was started: the one origin of its times.
    pub started: Instant,
    /// From `started` until it had exited.
    pub wall: Duration,
    pub usage: TreeUsage,
}

/// Runs one round of a program.
pub fn measure_round(
    program: &Program,
    asked: RunRequest,
    stop: &AtomicBool,
) -> Result<ProgramRound, RunFailure> {
    let ran = child::run(program, asked, stop)?;
    let named = |what: String| format!("{}: {what}", program.text());
    let series = series(&ran.out(), asked.ticks).map_err(|what| RunFailure::Failed(named(what)))?;
    let period_ns = series.period_ns;
    if u128::from(period_ns) != asked.period.as_nanos() {
        return Err(RunFailure::OtherPeriod(named(format!(
            "ran at a period of {period_ns} ns, and --period is {} ns; give --period {}, or have it follow {}",
            asked.period.as_nanos(),
            units::format_exact_duration(Duration::from_nanos(period_ns)),
            series::ENV_PERIOD
        ))));
    }
    let ticks = series.lateness_ns.len();
    if ticks as u64 != asked.ticks {
        let what = format!("wrote {ticks} ticks where {} were asked for", asked.ticks);
        return Err(RunFailure::Failed(named(what)));
    }
    Ok(ProgramRound { series, started: ran.started, wall: ran.wall, usage: ran.usage })
}

/// Its period, and its ticks.
fn series(out: &Path, ticks: u64) -> Result<Reader, String> {
    let name = series::ENV_OUT;
    let bytes = bytes(out, ticks)?;
    if bytes.starts_with(b"{") {
        let report = Report::from_json(&String::from_utf8_lossy(&bytes))
            .map_err(|e| format!("{name}: {e}"))?;
        let [subject] = report.subjects.as_slice() else {
            return Err(format!(
                "{name} holds a report of {} subjects; one was expected",
                report.subjects.len()
            ));
        };
        let lateness_ns =
            subject.rounds.iter().flat_map(|r| r.lateness_ns.iter().copied()).collect();
        Ok(Reader { period_ns: subject.period_ns, lateness_ns, wake_ns: None, waited_ns: None })
    } else {
        Reader::read(&bytes[..]).map_err(|e| format!("{name}: {e}"))
    }
}

/// The metrics that a program wrote.
pub fn read_metrics(out: &Path) -> Result<Vec<Metric>, String> {
    let name = series::ENV_OUT;
    let file = os::open_regular(out).map_err(|e| format!("{name} cannot be read: {e}"))?;
    if file.metadata().is_ok_and(|meta| meta.len() > METRICS_BYTES) {
        return Err(format!("wrote more than {} MiB to {name}", METRICS_BYTES >> 20));
    }
    series::metrics(file.take(METRICS_BYTES)).map_err(|e| format!("{name}: {e}"))
}

/// The whole file. Nobody writes to it any more: what could has ended.
fn bytes(out: &Path, ticks: u64) -> Result<Vec<u8>, String> {
    let name = series::ENV_OUT;
    let unread = |e| format!("{name}: it cannot be read: {e}");
    let mut file = os::open_regular(out).map_err(|e| match e.kind() {
        std::io::ErrorKind::NotFound => format!(
            "wrote nothing to {name}: it has to write its lateness there (see osjitter run --help); any program can be watched \
             from outside by osjitter trace (Linux, as root)"
        ),
        _ => unread(e),
    })?;
    let mut bytes = Vec::new();
    file.by_ref().take(1).read_to_end(&mut bytes).map_err(unread)?;
    let of_a_tick = if bytes == *b"{" { TICK_BYTES } else { LINE_BYTES };
    let most = ticks.saturating_mul(of_a_tick).saturating_add(OTHER_BYTES);
    file.take(most).read_to_end(&mut bytes).map_err(unread)?;
    if bytes.len() as u64 > most {
        return Err(format!(
            "wrote more than {most} bytes to {name}, which {ticks} ticks do not take"
        ));
    }
    Ok(bytes)
}
