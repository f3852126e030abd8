//! Settings of a monitor and its probes, checked against the command line and the machine.

use std::time::{Duration, SystemTime};

use cli::exit::{self, Error, usage};
use cli::units;
use engine::machine::{host, os};
use engine::scenario::{Scenario, ScenarioArgs, Subjects, draw_seed};
use engine::subject::{self, SubjectUnavailable, WaitKind};
use files::bins::{Labels, cell};
use files::subjects::{DefaultSelection, defaults_of};

use crate::monitor::args::MonitorArgs;
use crate::monitor::limits::{Limit, MAX_LIMITS};
use crate::monitor::loop_id::LoopId;
use crate::needless_runtime;

const DEFAULT_PERIOD: Duration = Duration::from_millis(10);
const MAX_PROBES: usize = 32;
const MAX_LABEL_BYTES: usize = 3_500;

/// Settings that do not change while the monitor runs.
#[derive(Debug)]
pub struct Setup {
    pub host: String,
    pub run_id: String,
    pub labels: Labels,
    pub limits: Vec<Limit>,
    pub budget: f64,
    pub kernel: String,
    pub quiet: bool,
}

impl Setup {
    /// Returns the label names and values of `osjitter_info`. The last two can be changed while the
    /// monitor runs.
    pub fn info(&self) -> Vec<(&'static str, String)> {
        let slack_ns = os::timer_slack_ns().map(|ns| ns.to_string());
        vec![
            ("version", env!("CARGO_PKG_VERSION").to_owned()),
            ("kernel", self.kernel.clone()),
            ("clock_source", or_unknown(host::clock_source())),
            ("slack_ns", or_unknown(slack_ns)),
        ]
    }
}

fn or_unknown(text: Option<String>) -> String {
    text.unwrap_or_else(|| "unknown".to_owned())
}

/// Returns the scenarios of the probes.
///
/// # Errors
///
/// Returns an error if a probe cannot run here or is of no use over days, or if there are too many.
pub fn select_probes(args: &MonitorArgs) -> exit::Result<Vec<Scenario>> {
    if args.no_probes {
        return Ok(Vec::new());
    }
    let mut subjects = Subjects::union(args.subject.iter().cloned());
    if subjects.is_empty() {
        subjects = defaults_of(DefaultSelection::Monitor).collect();
    }
    let periods = if args.period.is_empty() { vec![DEFAULT_PERIOD] } else { args.period.clone() };
    let scenarios = ScenarioArgs {
        subjects,
        periods,
        runtimes: args.runtime.clone(),
        ..ScenarioArgs::default()
    };
    let scenarios = scenarios.scenarios()?;
    let has_runtime = scenarios.iter().any(|scenario| scenario.runtime.is_some());
    needless_runtime::check(&args.runtime, has_runtime)?;
    if scenarios.len() > MAX_PROBES {
        return Err(usage!("{} probes selected; the maximum is {MAX_PROBES}", scenarios.len()));
    }
    let mut spinning = 0;
    for subject in scenarios.iter().filter_map(|scenario| scenario.subject.as_builtin()) {
        let name = subject.name;
        if subject.delays_grid {
            return Err(usage!(
                "{name} moves its grid with each miss, so its lateness would only grow over days; leave it out"
            ));
        }
        subject::check_available(subject).map_err(|reason| {
            let message = format!("{name} is not available here: {reason}");
            match &reason {
                SubjectUnavailable::NoTicker(error) => Error::from_io(error, message),
                _ => Error::usage(message),
            }
        })?;
        spinning += usize::from(subject.wait_kind == WaitKind::Spin);
    }
    if spinning as f64 > args.budget {
        let needed = spinning * 100 + 10;
        return Err(usage!(
            "{spinning} of these probes spin, which needs a whole core each at any period; leave them out or use --budget {needed}%"
        ));
    }
    Ok(scenarios)
}

impl Setup {
    /// Creates the settings of a monitor with these probes.
    ///
    /// # Errors
    ///
    /// Returns an error if there are too many labels or limits, or if a limit can never be judged.
    pub fn new(args: &MonitorArgs, probes: &[Scenario]) -> exit::Result<Self> {
        let mut labels = Labels::default();
        for (key, value) in &args.label {
            if labels.get(key).is_some() {
                return Err(usage!("--label {key} is given twice"));
            }
            labels.set(key, value).map_err(|why| usage!("--label: {why}"))?;
        }
        if labels.to_string().len() > MAX_LABEL_BYTES {
            return Err(usage!("the labels are longer than {MAX_LABEL_BYTES} bytes"));
        }

        if args.limit.len() > MAX_LIMITS {
            return Err(usage!("{} limits given; the maximum is {MAX_LIMITS}", args.limit.len()));
        }
        for (index, limit) in args.limit.iter().enumerate() {
            if args.limit[..index].iter().any(|earlier| earlier.is_same(limit)) {
                return Err(usage!("--limit {} is given twice; give it once", limit.text));
            }
            for probe in probes {
                check_ticks_suffice(limit, probe, args.interval)?;
            }
        }

        let hostname = || host::hostname().filter(|name| !name.is_empty());
        let name = args.host.clone().or_else(hostname).unwrap_or("unknown".to_owned());
        let start = humantime::format_rfc3339_seconds(SystemTime::now());
        let stamp = start.to_string().replace([':', '-'], "");
        Ok(Self {
            host: cell(&name).into_owned(),
            run_id: format!("{stamp}-{:08x}", draw_seed()),
            labels,
            limits: args.limit.clone(),
            budget: args.budget,
            kernel: or_unknown(host::capture().kernel),
            quiet: args.quiet,
        })
    }
}

/// Checks that a probe ticks often enough in an interval for a limit to be judged, if the limit
/// applies to it.
fn check_ticks_suffice(limit: &Limit, probe: &Scenario, interval: Duration) -> exit::Result<()> {
    let ticks = interval.as_nanos() / probe.period.as_nanos();
    let needed = limit.min_ticks();
    if !limit.applies_to(&LoopId::from(probe)) || ticks >= u128::from(needed) {
        return Ok(());
    }
    Err(usage!(
        "--limit {} needs {needed} ticks per interval, but {} has {ticks} in {}; use a longer --interval, a shorter --period, or NAME: before the limit",
        limit.text,
        probe.id,
        units::format_exact_duration(interval)
    ))
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn changed_slack_is_exported() {
        let setup = Setup {
            host: "host".to_owned(),
            run_id: "run".to_owned(),
            labels: Labels::default(),
            limits: Vec::new(),
            budget: 1.0,
            kernel: "6.18".to_owned(),
            quiet: true,
        };
        for ns in [777, 888] {
            os::set_timer_slack_ns(ns).unwrap();
            assert_eq!(setup.info()[1], ("kernel", "6.18".to_owned()));
            assert_eq!(setup.info()[3], ("slack_ns", ns.to_string()));
        }
    }
}
