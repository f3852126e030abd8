//! The question of stored sessions: is a new one, beside its control, later than those of a file?
//! It never changes them.

use std::path::PathBuf;

use cli::exit::{self, Error, usage};
use cli::time::format_time;
use engine::machine::{host, tuning};
use engine::scenario::parse_subject;
use files::environment::{Difference, EnvironmentKey};
use files::fitness::Fitness;
use files::gate::baseline::{Baseline, CONTROL, SESSION_PAIRS};
use files::gate::baseline_test;
use files::gate::verdict::{BaselineMetric, BaselineVerdict, Mode, Verdict, records};
use jitterstat::gate::decision::{Outcome, Reason};

use crate::gate::args::GateArgs;
use crate::gate::pairs::Pairs;
use crate::gate::question::{Gate, Question};
use crate::gate::reading::Judged;
use crate::gate::session::{SessionPlan, listed, read};
use crate::gate::text::{Row, Section, code, counted, or_none, rows};

/// A session to be judged by a file.
struct Against {
    file: PathBuf,
    stored: Baseline,
    session: SessionPlan,
    /// In what this machine differs from that of the file, where that was forced.
    forced: Vec<Difference>,
}

pub fn plan(args: &GateArgs) -> exit::Result<Option<Box<dyn Question>>> {
    let Some(file) = &args.baseline else { return Ok(None) };
    let name = file.display();
    let stored = read(file)?;
    let stored = stored.ok_or_else(|| {
        usage!("there is no {name}; `osjitter gate baseline add {name}` makes it")
    })?;
    let subject = args.subject.as_deref().map(parse_subject).transpose();
    let subject = subject.map_err(|e| Error::usage(e).context("--subject"))?;
    let pairs = args.max_pairs.unwrap_or(SESSION_PAIRS);
    let session = SessionPlan::of(&args.judged, subject, Some((file, &stored)), pairs)?;
    let forced = stored.environment.differences(&EnvironmentKey::from_host(&host::capture()));
    if !forced.is_empty() && !args.force {
        return Err(usage!(
            "{name} was recorded on another machine: {}; nothing was measured; --force measures anyway, and records a \
             warning",
            listed(&forced)
        ));
    }
    let takes = session.seconds();
    if args.max_time.is_some_and(|most| takes > most.as_secs_f64()) {
        return Err(usage!(
            "a session of {pairs} pairs takes about {takes:.0}s; allow more with --max-time, or fewer with --max-pairs"
        ));
    }
    Ok(Some(Box::new(Against { file: file.clone(), stored, session, forced })))
}

impl Question for Against {
    fn announce(&self) -> Vec<String> {
        let takes = format!("{:.0}s for a session", self.session.seconds());
        [takes].into_iter().chain(self.session.test.short_rounds()).collect()
    }

    fn ask(self: Box<Self>, gate: &mut Gate) -> exit::Result<()> {
        if !self.forced.is_empty() {
            let message =
                format!("The baseline was recorded on another machine: {}.", listed(&self.forced));
            gate.warn(
                "environment-differs",
                &message,
                "Its interval may be tight around the wrong number.",
            );
        }
        let (pairs, reason) = match gate.over() {
            Some(why) => (Pairs::default(), Some(why)),
            None => {
                self.session.test.design.cpu.map_or(Ok(()), tuning::bind)?;
                self.session.measure(&gate.stop, gate.quiet)
            }
        };
        let metrics = match reason {
            Some(_) => Vec::new(),
            None => {
                let new = self.session.session(&pairs, gate.verdict.started_utc.clone());
                baseline_test::judge(
                    &new,
                    &self.stored.sessions,
                    &self.session.design,
                    &self.session.test.rules,
                )
            }
        };
        gate.met(Fitness::from_tally(&pairs.tally, gate.verdict.host.cpus_online));
        let checked = self.verdict(&pairs, metrics, reason, gate.cpus());
        if reason.is_some() {
            gate.cut_short(pairs.failure);
        }
        gate.verdict.baseline = Some(checked);
        Ok(())
    }
}

impl Against {
    fn verdict(
        &self,
        pairs: &Pairs,
        metrics: Vec<BaselineMetric>,
        reason: Option<Reason>,
        cpus: f64,
    ) -> BaselineVerdict {
        let test = &self.session.test;
        let outcome = match reason {
            Some(_) => Outcome::Inconclusive,
            None => Outcome::worst_of(metrics.iter().map(|m| m.verdict)),
        };
        let open =
            metrics.iter().find_map(|m| m.reason).filter(|_| outcome == Outcome::Inconclusive);
        BaselineVerdict {
            file: self.file.display().to_string(),
            subject: test.names[1].clone(),
            control: CONTROL.to_owned(),
            sessions: self.stored.sessions.len() as u64,
            duration_ns: pairs.duration_ns(),
            verdict: outcome,
            reason: reason.or(open),
            plan: test.design.clone(),
            pairs: pairs.values.len() as u64,
            metrics,
            sides: pairs.sides(test, cpus),
            rounds: records(&pairs.values),
        }
    }
}

const HEADINGS: [&str; 6] = ["control", "stored", "now", "change", "interval", "tolerated"];

/// The percentiles of a session, beside those that are stored.
pub fn table(metrics: &[BaselineMetric], columns: usize) -> String {
    rows(&HEADINGS, &metrics.iter().map(|metric| row(metric, "")).collect::<Vec<_>>(), columns)
}

fn row(m: &BaselineMetric, subject: &str) -> Row {
    let sides =
        vec![format_time(m.control_ns), or_none(m.stored_ns, format_time), format_time(m.now_ns)];
    Judged::from(m).row(subject, &format!("{} against stored sessions", m.name), sides)
}

pub fn sections(verdict: &Verdict) -> Vec<Section> {
    verdict.baseline.iter().map(section).collect()
}

fn section(of: &BaselineVerdict) -> Section {
    let BaselineVerdict { file, subject, control, pairs, sessions, .. } = of;
    let stored = counted(*sessions, "session");
    let advice = format!(
        "more than {pairs} pairs of rounds (--max-pairs) or more than {sessions} stored sessions (osjitter gate \
         baseline add {file}) would narrow it"
    );
    Section {
        title: [
            format!("{subject} over its control {control}, against {stored} of {file}"),
            format!(
                "{} over its control {}, against {stored} of {}",
                code(subject),
                code(control),
                code(file)
            ),
        ],
        of: ("Percentile", str::to_owned),
        headings: HEADINGS.to_vec(),
        rows: of.metrics.iter().map(|metric| row(metric, subject)).collect(),
        measured: format!(
            "{pairs} pairs of rounds {}, {:.1}s",
            Mode::Interleaved,
            of.duration_ns as f64 / 1e9
        ),
        notes: Vec::new(),
        sides: of.sides.clone(),
        lifts: of
            .metrics
            .iter()
            .filter_map(|m| Some((m.name.clone(), m.lift.as_ref().map(|l| [l.a, l.b])?)))
            .collect(),
        advice: (of.reason == Some(Reason::TooNoisy)).then_some(advice),
    }
}
