//! Output of a measured program. Its size is bounded by the request.

use std::io::Read;
use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use files::file::File as _;
use files::report::Report;
use jitterstat::series::{self, Metric, Reader};

use crate::machine::os::{self, TreeUsage};
use crate::measure::child::{
    self, CompletedRun, Probe, ProgramSession, RunFailure, RunRequest, SessionRound,
};
use crate::program::Program;
use cli::units;
use cli::words::pluralize;

/// Maximum length of a line of a series: a sign and 19 digits, two numbers of 20 digits,
/// separators.
const MAX_LINE_BYTES: u64 = 64;
/// Maximum size of a tick of a report, in a round of its own with a summary.
const MAX_TICK_BYTES: u64 = 4 << 10;
/// Maximum size of the rest of either file: header, host, histogram.
const MAX_OTHER_BYTES: u64 = 1 << 20;

/// Maximum size of a file with metrics, which has tens of millions of samples. It is read in
/// bounded memory.
const MAX_METRICS_BYTES: u64 = 1 << 30;

/// Output of a round of a program.
#[derive(Debug)]
pub struct ProgramRound {
    pub series: Reader,
    /// Id of the program's process.
    pub process: u32,
    /// Time just before the start of the round, which is the origin of all times.
    pub started: Instant,
    /// Time from `started` to the exit, or to the report that the round is written.
    pub wall: Duration,
    /// Resources from `started` until then, in which the program also did other things than tick;
    /// `None` if they are unknown.
    pub usage: Option<TreeUsage>,
}

/// Runs a round of a program, which is a process of its own.
pub fn measure_round(
    program: &Program,
    request: RunRequest,
    stop: &AtomicBool,
) -> Result<ProgramRound, RunFailure> {
    completed_round(program, child::run(program, request, stop)?, request)
}

/// Runs a program for the first time. Returns `None` if it gets its rounds over standard input, and
/// the round of its environment otherwise.
pub fn probe_round(
    program: &Program,
    request: RunRequest,
    stop: &AtomicBool,
) -> Result<Option<ProgramRound>, RunFailure> {
    let Probe { run, takes_rounds } = child::probe(program, request, stop)?;
    if takes_rounds { Ok(None) } else { completed_round(program, run, request).map(Some) }
}

/// Reads the round of a program that has exited.
fn completed_round(
    program: &Program,
    run: CompletedRun,
    request: RunRequest,
) -> Result<ProgramRound, RunFailure> {
    let with_program = |reason: String| format!("{}: {reason}", program.text());
    let (process, started, wall, usage) = (run.process(), run.started, run.wall, run.usage);
    let series = match read_series(&run.output_path(), request.ticks) {
        Ok(Some(series)) => series,
        Ok(None) => {
            let reason = format!("wrote nothing to {}{}", series::ENV_OUT, run.quote_stderr());
            return Err(RunFailure::Failed(with_program(reason)));
        }
        Err(failure) => return Err(failure.for_program(program)),
    };
    check_series(program, &series, request)?;
    Ok(ProgramRound { series, process, started, wall, usage: Some(usage) })
}

/// Runs a round of a program that gets its rounds over standard input.
pub fn measure_session_round(
    program: &Program,
    session: &mut ProgramSession,
    request: RunRequest,
    stop: &AtomicBool,
) -> Result<ProgramRound, RunFailure> {
    let SessionRound { started, wall, usage } = session.run_round(request, stop)?;
    let series = match read_series(&session.output_path(), request.ticks) {
        Ok(Some(series)) => series,
        Ok(None) => return Err(session.fail(format!("wrote nothing to {}", series::ENV_OUT))),
        Err(failure) => return Err(failure.for_program(program)),
    };
    check_series(program, &series, request)?;
    Ok(ProgramRound { series, process: session.process(), started, wall, usage })
}

/// Checks the period and the number of ticks of a series.
fn check_series(program: &Program, series: &Reader, request: RunRequest) -> Result<(), RunFailure> {
    let with_program = |reason: String| format!("{}: {reason}", program.text());
    let period_ns = series.period_ns;
    if u128::from(period_ns) != request.period.as_nanos() {
        let actual = units::format_exact_ns(period_ns);
        let expected = units::format_exact_duration(request.period);
        return Err(RunFailure::OtherPeriod(with_program(format!(
            "ran at a period of {actual}, expected {expected}; add --period {actual}, or let the program use {}",
            series::ENV_PERIOD
        ))));
    }
    let ticks = series.lateness_ns.len();
    if ticks as u64 != request.ticks {
        let reason = format!("wrote {}, expected {}", pluralize(ticks, "tick"), request.ticks);
        return Err(RunFailure::OtherTicks(with_program(reason)));
    }
    Ok(())
}

/// Reads the period and the ticks from a series or a report. Returns `None` if there is no file.
fn read_series(out: &Path, ticks: u64) -> Result<Option<Reader>, RunFailure> {
    let name = series::ENV_OUT;
    let Some(bytes) = read_bounded(out, ticks)? else { return Ok(None) };
    if bytes.starts_with(b"{") {
        let report = Report::from_json(&String::from_utf8_lossy(&bytes))
            .map_err(|e| format!("{name}: {e}"))?;
        let [subject] = report.subjects.as_slice() else {
            let subjects = report.subjects.len();
            return Err(
                format!("{name} contains a report of {subjects} subjects; expected one").into()
            );
        };
        let lateness_ns =
            subject.rounds.iter().flat_map(|r| r.lateness_ns.iter().copied()).collect();
        let period_ns = subject.period_ns;
        let (wake_ns, waited_ns, usage) = (None, None, None);
        Ok(Some(Reader { period_ns, lateness_ns, wake_ns, waited_ns, usage }))
    } else {
        Ok(Some(Reader::read(&bytes[..]).map_err(|e| format!("{name}: {e}"))?))
    }
}

/// Reads the metrics that a program wrote.
pub fn read_metrics(out: &Path) -> Result<Vec<Metric>, RunFailure> {
    let name = series::ENV_OUT;
    let file = os::open_regular(out)
        .map_err(|e| RunFailure::from_io(&e, format!("{name} cannot be read: {e}")))?;
    if file.metadata().is_ok_and(|meta| meta.len() > MAX_METRICS_BYTES) {
        return Err(format!("wrote more than {} MiB to {name}", MAX_METRICS_BYTES >> 20).into());
    }
    Ok(series::metrics(file.take(MAX_METRICS_BYTES)).map_err(|e| format!("{name}: {e}"))?)
}

/// Reads the whole file, up to the size that `ticks` ticks can have. All writers have exited.
/// Returns `None` if there is no file.
fn read_bounded(out: &Path, ticks: u64) -> Result<Option<Vec<u8>>, RunFailure> {
    let name = series::ENV_OUT;
    let read_error =
        |e: std::io::Error| RunFailure::from_io(&e, format!("{name}: it cannot be read: {e}"));
    let mut file = match os::open_regular(out) {
        Ok(file) => file,
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(e) => return Err(read_error(e)),
    };
    let mut bytes = Vec::new();
    file.by_ref().take(1).read_to_end(&mut bytes).map_err(read_error)?;
    let tick_bytes = if bytes == *b"{" { MAX_TICK_BYTES } else { MAX_LINE_BYTES };
    let max_bytes = ticks.saturating_mul(tick_bytes).saturating_add(MAX_OTHER_BYTES);
    file.take(max_bytes).read_to_end(&mut bytes).map_err(read_error)?;
    if bytes.len() as u64 > max_bytes {
        return Err(format!(
            "wrote more than {max_bytes} bytes to {name}, the maximum for {}",
            pluralize(ticks, "tick")
        )
        .into());
    }
    Ok(Some(bytes))
}
