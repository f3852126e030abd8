//! Output of a measured program. Its size is bounded by the request.

use std::io::Read;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use files::file::File as _;
use files::report::Report;
use jitterstat::series::{self, Metric, Reader};

use crate::machine::os::{self, TreeUsage};
use crate::measure::child::{
    self, CompletedRun, Probe, ProgramFault, ProgramSession, RunFailure, RunRequest, RunStep,
    SessionRound,
};
use crate::program::Program;
use cli::units::{to_ns, to_signed_ns};

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

/// Size of the beginning of a file in which metrics are declared, if their names are all that counts.
const MAX_DECLARATION_BYTES: u64 = 64 << 10;

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
    let (process, started, wall, usage) = (run.process(), run.started, run.wall, run.usage);
    let Some(series) = read_series(program, &run.output_path(), request.ticks)? else {
        let stderr = run.quote_stderr();
        return Err(RunFailure::new(program, ProgramFault::NoSeries { stderr }));
    };
    check_series(program, &series, request, wall)?;
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
    let Some(series) = read_series(program, &session.output_path(), request.ticks)? else {
        return Err(session.fail(|stderr| ProgramFault::NoSeries { stderr }));
    };
    check_series(program, &series, request, wall)?;
    Ok(ProgramRound { series, process: session.process(), started, wall, usage })
}

/// Checks the period, the number of ticks and their lateness of a series, which was written within
/// `wall`.
fn check_series(
    program: &Program,
    series: &Reader,
    request: RunRequest,
    wall: Duration,
) -> Result<(), RunFailure> {
    let (actual_ns, expected) = (series.period_ns, request.period);
    if u128::from(actual_ns) != expected.as_nanos() {
        let program = program.text().to_owned();
        return Err(RunFailure::WrongPeriod { program, actual_ns, expected });
    }
    let (actual, expected) = (series.lateness_ns.len() as u64, request.ticks);
    if actual != expected {
        let program = program.text().to_owned();
        return Err(RunFailure::WrongTickCount { program, actual, expected });
    }
    let max_ns = to_ns(wall);
    let mut lateness_ns = series.lateness_ns.iter().copied();
    if let Some(lateness_ns) = lateness_ns.find(|late_ns| late_ns.unsigned_abs() > max_ns) {
        let fault = ProgramFault::ImpossibleLateness { lateness_ns, run_ns: to_signed_ns(wall) };
        return Err(RunFailure::new(program, fault));
    }
    Ok(())
}

/// Reads the period and the ticks from a series or a report. Returns `None` if there is no file.
fn read_series(program: &Program, out: &Path, ticks: u64) -> Result<Option<Reader>, RunFailure> {
    let failed = |fault| RunFailure::new(program, fault);
    let Some(bytes) = read_bounded(program, out, ticks)? else { return Ok(None) };
    if !bytes.starts_with(b"{") {
        let series = Reader::read(&bytes[..])
            .map_err(|error| failed(ProgramFault::InvalidSeries(Arc::new(error))))?;
        return Ok(Some(series));
    }
    let report = Report::from_json(&String::from_utf8_lossy(&bytes))
        .map_err(|error| failed(ProgramFault::InvalidReport(Arc::new(error))))?;
    let [subject] = report.subjects.as_slice() else {
        return Err(failed(ProgramFault::SubjectCount(report.subjects.len())));
    };
    let lateness_ns = subject.rounds.iter().flat_map(|r| r.lateness_ns.iter().copied()).collect();
    let period_ns = subject.period_ns;
    let (wake_ns, waited_ns, usage) = (None, None, None);
    Ok(Some(Reader { period_ns, lateness_ns, wake_ns, waited_ns, usage }))
}

/// Reads the metrics that a program wrote.
pub fn read_metrics(program: &Program, out: &Path) -> Result<Vec<Metric>, RunFailure> {
    let file = os::open_regular(out)
        .map_err(|error| RunFailure::from_system(program, RunStep::ReadMetrics, error))?;
    if file.metadata().is_ok_and(|meta| meta.len() > MAX_METRICS_BYTES) {
        return Err(RunFailure::new(
            program,
            ProgramFault::LargeMetrics { max_bytes: MAX_METRICS_BYTES },
        ));
    }
    series::metrics(file.take(MAX_METRICS_BYTES))
        .map_err(|error| RunFailure::new(program, ProgramFault::InvalidSeries(Arc::new(error))))
}

/// Returns whether a program declares a metric at the beginning of its file. A file that is not a
/// series declares none.
pub fn declares_metric(out: &Path, name: &str) -> bool {
    let mut start = Vec::new();
    let file = os::open_regular(out).ok();
    let read = file.and_then(|file| file.take(MAX_DECLARATION_BYTES).read_to_end(&mut start).ok());
    let text = String::from_utf8_lossy(&start);
    let declares = |line: &str| line.split_ascii_whitespace().take(2).eq(["metric", name]);
    read.is_some() && text.lines().any(declares)
}

/// Reads the whole file, up to the size that `ticks` ticks can have. All writers have exited.
/// Returns `None` if there is no file.
fn read_bounded(program: &Program, out: &Path, ticks: u64) -> Result<Option<Vec<u8>>, RunFailure> {
    let read_error = |error| RunFailure::from_system(program, RunStep::ReadSeries, error);
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
        return Err(RunFailure::new(program, ProgramFault::LargeSeries { max_bytes, ticks }));
    }
    Ok(Some(bytes))
}
