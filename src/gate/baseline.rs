//! The comparison with stored sessions: is the subject, relative to its control, later than in the
//! sessions of a baseline file?
//!
//! A gate never changes the file; `gate baseline add` does.

use std::path::PathBuf;

use cli::exit::{self, Error, usage};
use cli::time::format_time;
use cli::words::pluralize;
use engine::machine::{host, tuning};
use engine::scenario::parse_subject;
use files::environment::{Difference, EnvironmentKey};
use files::fitness::Fitness;
use files::gate::baseline::{Baseline, SESSION_PAIRS};
use files::gate::baseline_test;
use files::gate::verdict::{BaselineMetric, BaselineVerdict, Mode, Verdict, records};
use files::subjects::SLEEPING_CONTROL;
use jitterstat::gate::decision::{Outcome, Reason};
use render::document::Document;

use crate::gate::args::GateArgs;
use crate::gate::explain::{MetricView, percentile_lift};
use crate::gate::pairs::CollectedPairs;
use crate::gate::question::{Gate, PlannedQuestion, Question};
use crate::gate::session::{SessionPlan, StoredBaseline, format_differences, read_baseline};
use crate::gate::text::document::table;
use crate::gate::text::{Row, Section, Title, format_option};

/// A planned session, to be compared with the sessions of a file.
struct BaselineTest {
    file: PathBuf,
    stored: Baseline,
    session: SessionPlan,
    /// Differences between this machine and that of the file, accepted with --force.
    forced: Vec<Difference>,
}

pub fn plan(args: &GateArgs) -> PlannedQuestion {
    let Some(file) = &args.baseline else { return Ok(None) };
    let name = file.display();
    let stored = read_baseline(file)?.ok_or_else(|| {
        usage!("{name} does not exist; create it with `osjitter gate baseline add {name}`")
    })?;
    let subject = args.subject.as_deref().map(parse_subject).transpose();
    let subject = subject.map_err(|e| Error::from(e).context("--subject"))?;
    let pairs = args.max_pairs.unwrap_or(SESSION_PAIRS);
    let stored_baseline = StoredBaseline { file, baseline: &stored };
    let session = SessionPlan::resolve(&args.judged, subject, Some(stored_baseline), pairs)?;
    let forced = stored.environment.differences(&EnvironmentKey::from_host(&host::capture()));
    if !forced.is_empty() && !args.force {
        return Err(usage!(
            "{name} was recorded on another machine: {}; nothing was measured; --force measures anyway and records a \
             warning",
            format_differences(&forced)
        ));
    }
    let seconds = session.seconds();
    if args.max_time.is_some_and(|max_time| seconds > max_time.as_secs_f64()) {
        return Err(usage!(
            "a session of {pairs} pairs takes about {seconds:.0}s; allow more with --max-time, or fewer with --max-pairs"
        ));
    }
    Ok(Some(Box::new(BaselineTest { file: file.clone(), stored, session, forced })))
}

impl Question for BaselineTest {
    fn announce(&self) -> Vec<String> {
        let mut notes = vec![format!("{:.0}s for a session", self.session.seconds())];
        notes.extend(self.session.test.short_round_note());
        notes
    }

    fn judge(self: Box<Self>, gate: &mut Gate) -> exit::Result<()> {
        self.warn_if_forced(gate);
        let (mut pairs, reason) = match gate.stop_reason() {
            Some(reason) => (CollectedPairs::default(), Some(reason)),
            None => {
                self.session.test.design.cpu.map_or(Ok(()), tuning::bind)?;
                self.session.measure(&gate.stop, gate.quiet)
            }
        };
        let metrics = match reason {
            Some(_) => Vec::new(),
            None => self.judge_session(&pairs, &gate.verdict.started_utc),
        };
        gate.record_fitness(Fitness::from_tally(&pairs.tally, gate.verdict.host.cpus_online));
        gate.report_left_over(pairs.left_over());
        gate.verdict.baseline = Some(self.verdict(&pairs, metrics, reason, gate.cpus()));
        if reason.is_some() {
            gate.mark_partial(pairs.failure.take().map(|failure| failure.to_string()));
        }
        Ok(())
    }
}

impl BaselineTest {
    fn warn_if_forced(&self, gate: &mut Gate) {
        if self.forced.is_empty() {
            return;
        }
        let differences = format_differences(&self.forced);
        let message = format!("The baseline was recorded on another machine: {differences}.");
        let hint = "Its interval may be tight around the wrong number.";
        gate.warn("environment-differs", &message, hint);
    }

    fn judge_session(&self, pairs: &CollectedPairs, started_utc: &str) -> Vec<BaselineMetric> {
        let SessionPlan { design, test } = &self.session;
        let session = self.session.session(pairs, started_utc.to_owned());
        baseline_test::judge(&session, &self.stored.sessions, design, &test.rules)
    }

    /// Builds the verdict. `reason` tells why there are no metrics.
    fn verdict(
        &self,
        pairs: &CollectedPairs,
        metrics: Vec<BaselineMetric>,
        reason: Option<Reason>,
        cpus: u64,
    ) -> BaselineVerdict {
        let test = &self.session.test;
        let outcome = match reason {
            Some(_) => Outcome::Inconclusive,
            None => Outcome::worst_of(metrics.iter().map(|metric| metric.judged.verdict)),
        };
        let metric_reason = metrics.iter().find_map(|metric| metric.judged.reason);
        let open_reason = metric_reason.filter(|_| outcome == Outcome::Inconclusive);
        BaselineVerdict {
            file: self.file.display().to_string(),
            subject: test.names.candidate.clone(),
            control: SLEEPING_CONTROL.name.to_owned(),
            sessions: self.stored.sessions.len() as u64,
            duration_ns: pairs.duration_ns(),
            verdict: outcome,
            reason: reason.or(open_reason),
            plan: test.design.clone(),
            pairs: pairs.values.len() as u64,
            metrics,
            sides: pairs.side_conditions(cpus),
            rounds: records(&pairs.values),
        }
    }
}

const HEADINGS: [&str; 6] = ["control", "stored", "now", "change", "interval", "tolerated"];

/// Describes the percentiles of a session, compared with the stored ones.
pub fn document(metrics: &[BaselineMetric]) -> Document {
    let rows: Vec<Row> = metrics.iter().map(|metric| row(metric, "")).collect();
    let mut document = Document::new();
    document.table(table("percentile", &HEADINGS, &rows, |outcome| outcome.to_string()));
    document
}

fn row(metric: &BaselineMetric, subject: &str) -> Row {
    let case = format!("{} against stored sessions", metric.name);
    let values = vec![
        format_time(metric.control_ns),
        format_option(metric.stored_ns, format_time),
        format_time(metric.now_ns),
    ];
    let view =
        MetricView { name: &metric.name, judged: &metric.judged, lift: metric.lift.as_ref() };
    view.row(subject, &case, values)
}

pub fn sections(verdict: &Verdict) -> Vec<Section> {
    verdict.baseline.iter().map(section).collect()
}

fn section(verdict: &BaselineVerdict) -> Section {
    let BaselineVerdict { subject, pairs, .. } = verdict;
    let seconds = verdict.duration_ns as f64 / 1e9;
    let lift = |metric: &BaselineMetric| percentile_lift(&metric.name, metric.lift.as_ref());
    Section {
        title: title(verdict),
        key_heading: "percentile",
        headings: HEADINGS.to_vec(),
        rows: verdict.metrics.iter().map(|metric| row(metric, subject)).collect(),
        measured: format!("{pairs} pairs of rounds {}, {seconds:.1}s", Mode::Interleaved),
        notes: Vec::new(),
        sides: verdict.sides.clone(),
        lifts: verdict.metrics.iter().filter_map(lift).collect(),
        advice: (verdict.reason == Some(Reason::TooNoisy)).then(|| advice(verdict)),
    }
}

fn title(verdict: &BaselineVerdict) -> Title {
    let BaselineVerdict { file, subject, control, .. } = verdict;
    let sessions = pluralize(verdict.sessions, "session");
    Title::Subject(format!("{subject} over its control {control}, against {sessions} of {file}"))
}

fn advice(verdict: &BaselineVerdict) -> String {
    let BaselineVerdict { file, pairs, sessions, .. } = verdict;
    format!(
        "more than {pairs} pairs of rounds (--max-pairs) or more than {sessions} stored sessions (osjitter gate \
         baseline add {file}) would narrow it"
    )
}
