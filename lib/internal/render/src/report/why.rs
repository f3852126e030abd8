//! Explains in words what delayed the worst ticks, for the terminal, Markdown and the page.

mod sections;

use cli::printable::to_printable_message;
use cli::time::{
    format_interval, format_number, format_percent, format_share, format_signed_time, format_time,
    trim_zeros,
};
use cli::words::{group_digits, pluralize_grouped, prefix_or_empty};
use files::report::why::{Behind, Chain, Class, KernelChain, LateTick, Shares, Tier};
use files::report::{Report, Subject};
use files::why::pool::{MIN_EPISODES, MIN_TICKS};

use crate::report::label::labels;
use crate::report::late_code;
pub use crate::report::subject_diagnosis::Diagnosis;
use crate::report::unexplained::{GroupedDiagnoses, SufficientLength};

pub use sections::{add_diagnoses, add_main_diagnoses};

/// Minimum share of the lateness, and minimum total time, of a cause that is listed.
const MIN_SHARE: f64 = 0.01;
const MIN_NS: u64 = 10_000;
/// Maximum number of threads that are named as occupying the CPU.
const MAX_NAMED: usize = 3;

/// Returns the diagnoses of all profiled subjects.
pub fn diagnoses(report: &Report) -> GroupedDiagnoses<'_> {
    GroupedDiagnoses::new(select_diagnoses(report, |_| true).into_iter())
}

/// Returns the diagnoses of the profiled subjects that meet a condition.
fn select_diagnoses(report: &Report, is_selected: impl Fn(&Subject) -> bool) -> Vec<Diagnosis<'_>> {
    let trace_ns = report.trace.as_ref().map(|trace| trace.window_ns);
    let mut diagnoses = Vec::new();
    for (subject, name) in report.subjects.iter().zip(labels(report).names) {
        if is_selected(subject) {
            let why = subject.why.as_ref();
            diagnoses.extend(why.map(|why| Diagnosis { name, why, trace_ns }));
        }
    }
    diagnoses
}

/// A cause with its share of the lateness and its evidence.
#[derive(Debug)]
pub struct Cause {
    pub class: Class,
    /// Percent of the lateness, with the confidence interval if there is one.
    pub share: String,
    pub words: &'static str,
    pub evidence: String,
}

/// Returns the name of a cause.
pub fn class_name(class: Class) -> &'static str {
    match class {
        Class::Queue => "waited for a CPU",
        Class::Quota => "CPU quota",
        Class::OwnCpu => "own CPU",
        Class::Faults => "page faults",
        Class::Blocked => "blocked",
        Class::Stopped => "stopped",
        Class::Slack => "timer slack",
        Class::Host => "host",
        Class::Below => "below the thread",
        Class::Path => "the usual way",
        Class::Unexplained => "unexplained",
    }
}

/// Returns the causes that are large enough to be listed, the largest first.
fn significant_classes(shares: &Shares) -> Vec<Class> {
    let total = shares.total_ns().max(1) as f64;
    let mut classes = Class::ALL.to_vec();
    classes.retain(|class| shares.ns(*class) >= MIN_NS);
    classes.retain(|class| shares.ns(*class) as f64 / total >= MIN_SHARE);
    classes.sort_by_key(|class| std::cmp::Reverse(shares.ns(*class)));
    classes
}

impl Diagnosis<'_> {
    /// Returns a line with the subject, the selected ticks and the cost of profiling.
    pub fn heading(&self) -> String {
        let name = &self.name;
        let which = self.selection();
        let Some(tier) = self.why.tier else {
            let reason = self.missing_reason();
            return format!("Why {which} were late ({name}) is not known: {reason}.");
        };
        let too_few = if self.why.shares_ns.is_some() {
            String::new()
        } else {
            let length = SufficientLength::new(self).map(SufficientLength::phrase);
            let length = prefix_or_empty(", as in ", length);
            format!(
                ": too few to say; it takes {MIN_TICKS} ticks in {MIN_EPISODES} episodes{length}"
            )
        };
        let (counts, tier, overhead) = (self.counts(), tier_name(tier), self.overhead());
        let functions = self.why.code.as_ref().map(late_code::heading);
        let functions = prefix_or_empty(": ", functions.filter(|named| !named.is_empty()));
        format!(
            "Why {which} were late{functions} ({name}, {counts}; tier {tier}{overhead}){too_few}"
        )
    }

    /// Describes which ticks count as late.
    fn selection(&self) -> String {
        match self.why.quantile {
            Some(q) => {
                let percent = format_number((1.0 - q) * 100.0);
                format!("the worst {} %", trim_zeros(&percent))
            }
            None => format!("ticks of {} or more", format_time(self.why.threshold_ns as i64)),
        }
    }

    fn counts(&self) -> String {
        let why = self.why;
        format!(
            "{} of {}, {}, {} of lateness",
            group_digits(why.late_ticks),
            pluralize_grouped(why.ticks, "tick"),
            pluralize_grouped(why.episodes, "episode"),
            format_time(why.lateness_ns as i64)
        )
    }

    /// Describes the cost of profiling; empty if it is not known.
    fn overhead(&self) -> String {
        let Some(lateness) = &self.why.overhead_ns else { return String::new() };
        let interval = lateness.ci95.map(|ci| format_interval(ci[0], ci[1]));
        let interval = prefix_or_empty(" ", interval);
        let cpu = match &self.why.overhead_cpu_ns {
            Some(cpu) => format!(", {} of CPU time per tick", format_signed_time(cpu.p50)),
            None => String::new(),
        };
        format!(", profiling cost {}{interval} at p50{cpu}", format_signed_time(lateness.p50))
    }

    /// Returns the causes to list; empty if there are too few ticks to judge.
    pub fn causes(&self) -> Vec<Cause> {
        let Some(shares) = &self.why.shares_ns else { return Vec::new() };
        significant_classes(shares).into_iter().map(|class| self.cause(class, shares)).collect()
    }

    fn cause(&self, class: Class, shares: &Shares) -> Cause {
        let total = shares.total_ns().max(1) as f64;
        let mut share = format_percent(shares.ns(class) as f64 / total);
        if let Some([low, high]) = self.why.ci95.get(class.key()) {
            share += &format!(" [{:.0}, {:.0}]", low * 100.0, high * 100.0);
        }
        Cause { class, share, words: class_name(class), evidence: self.evidence(class, total) }
    }

    fn evidence(&self, class: Class, total: f64) -> String {
        let evidence = &self.why.evidence;
        match class {
            Class::Queue => match &self.why.behind {
                Some(behind) => format_occupants(behind, total),
                None => "(tier B1 would show which threads had it)".to_owned(),
            },
            Class::Quota => {
                let periods = evidence.throttled_periods.unwrap_or(0);
                format!("{periods} throttled periods in these rounds")
            }
            Class::OwnCpu => "its thread was catching up, or busy with other tasks".to_owned(),
            Class::Faults => "estimated from the number of page faults".to_owned(),
            Class::Blocked => {
                "its thread slept although tasks were ready: I/O, a lock or a sleep".to_owned()
            }
            Class::Stopped => "by a signal, or because its control group was frozen".to_owned(),
            Class::Slack => {
                "an upper bound: the kernel may delay such timers on purpose".to_owned()
            }
            Class::Host => self.host_evidence(),
            Class::Below => "interrupts, waking up an idle CPU, or the host".to_owned(),
            Class::Path => {
                "from the timer to the task, including the rounding of the runtime's timers"
                    .to_owned()
            }
            Class::Unexplained if evidence.threads > 1 => {
                "tasks may move between threads".to_owned()
            }
            Class::Unexplained => String::new(),
        }
    }

    fn host_evidence(&self) -> String {
        let evidence = &self.why.evidence;
        let standstill = match evidence.standstill_ns {
            Some(ns @ 1..) => format!("the whole machine stopped for {}; ", format_time(ns as i64)),
            _ => String::new(),
        };
        let steal = format_time(evidence.steal_ns.unwrap_or(0) as i64);
        format!("{standstill}the hypervisor reports {steal} in these rounds")
    }

    /// Describes the records that the kernel lost, if any.
    pub fn losses(&self) -> Option<String> {
        let lost = Some(self.why.evidence.switches_lost).filter(|lost| *lost > 0)?;
        Some(format!(
            "The kernel lost {} records; the rounds to which they belong are explained without them.",
            group_digits(lost)
        ))
    }

    /// Returns what the next tier would add, and its requirements.
    pub fn next_tier(&self) -> Option<String> {
        let missing = self.why.missing.as_ref().filter(|_| self.why.tier.is_some())?;
        let adds = match missing.tier {
            Tier::A1 => "scheduler statistics of the thread",
            Tier::A2 => "each context switch of the thread, to the nanosecond",
            Tier::B1 => "which threads held the CPU",
            Tier::B2 => "when the timer expired",
        };
        Some(format!(
            "Tier {} would add {adds}; {}.",
            tier_name(missing.tier),
            to_printable_message(&missing.reason)
        ))
    }

    /// Describes the path from the timer to the task, if kernel records show it.
    pub fn wakeup_path(&self) -> Option<String> {
        let chain = self.why.kernel_chain.as_ref().filter(|chain| chain.whole > 0)?;
        let medians = chain.links.iter().map(|link| (link.name.as_str(), link.p50));
        let mut path = format!("at p50, {}", format_links(medians));
        let p99: Option<Vec<(&str, i64)>> =
            chain.links.iter().map(|link| Some((link.name.as_str(), link.p99?))).collect();
        if let Some(p99) = p99 {
            path += &format!("; at p99, {}", format_links(p99.into_iter()));
        }
        let broken = if chain.broken == 0 {
            String::new()
        } else {
            format!(", {} incomplete", group_digits(chain.broken))
        };
        Some(format!(
            "From timer to task, by the kernel's records of {}{broken}: {path}.{}",
            pluralize_grouped(chain.whole, "tick"),
            describe_agreement(chain)
        ))
    }

    /// Describes the longest late ticks, one line each.
    pub fn longest_ticks(&self) -> impl Iterator<Item = DescribedTick> {
        self.why.longest.iter().map(describe_late_tick)
    }
}

/// Describes how well kernel records and the account of the thread agree, if both are known.
fn describe_agreement(chain: &KernelChain) -> String {
    match chain.agreement {
        Some(share) => format!(
            " The scheduler statistics of the thread confirm the wait for a CPU for {} of the lateness of late ticks.",
            format_percent(share)
        ),
        None => String::new(),
    }
}

/// Formats the links of a wake-up path, each relative to the one before it.
fn format_links<'a>(links: impl Iterator<Item = (&'a str, i64)>) -> String {
    let links: Vec<String> = links.map(|(name, ns)| format_link(name, ns)).collect();
    links.join(", ")
}

fn format_link(name: &str, ns: i64) -> String {
    let what = match name {
        "timer" if ns < 0 => return format!("the timer {} early", format_time(-ns)),
        "timer" => "the timer",
        "woken" => "woken",
        "on_cpu" => "on its CPU",
        "runtime" => "in the runtime",
        _ => "in the task",
    };
    format!("{what} +{}", format_time(ns))
}

fn tier_name(tier: Tier) -> &'static str {
    match tier {
        Tier::A1 => "A1",
        Tier::A2 => "A2",
        Tier::B1 => "B1",
        Tier::B2 => "B2",
    }
}

fn format_occupants(behind: &[Behind], total: f64) -> String {
    let mut occupants = Vec::new();
    let mut others = 0;
    for (i, thread) in behind.iter().enumerate() {
        let share = thread.ns as f64 / total;
        if i < MAX_NAMED && share >= MIN_SHARE {
            let name = to_printable_message(&thread.comm);
            occupants.push(format!("{name} {:.0} %", share * 100.0));
        } else {
            others += thread.ns;
        }
    }
    let others = others as f64 / total;
    if others >= MIN_SHARE {
        occupants.push(format!("{:.0} % others", others * 100.0));
    }
    if occupants.is_empty() { String::new() } else { format!("behind {}", occupants.join(", ")) }
}

/// A late tick in words.
pub struct DescribedTick {
    /// Its place in the run, and its lateness.
    pub tick: String,
    /// The parts of the lateness, each with its cause.
    pub causes: String,
}

fn describe_late_tick(tick: &LateTick) -> DescribedTick {
    let mut parts = Vec::new();
    for class in significant_classes(&tick.shares_ns) {
        let time = format_time(tick.shares_ns.ns(class) as i64);
        let behind = match &tick.behind {
            Some(behind) if class == Class::Queue => name_occupants(behind),
            _ => String::new(),
        };
        let name = if class == Class::Queue { "waiting for a CPU" } else { class_name(class) };
        let of_it = if parts.is_empty() { " of it" } else { "" };
        parts.push(format!("{time}{of_it} {name}{behind}"));
    }
    if let Some(code) = &tick.code {
        parts.insert(0, late_code::describe(code));
    }
    let path = tick.chain.as_ref().map(|chain| format_links(links(chain)));
    let late = format_time(tick.lateness_ns as i64);
    DescribedTick {
        tick: format!("Round {}, tick {}: {late} late", tick.round, tick.tick),
        causes: format!("{}{}", parts.join(", "), prefix_or_empty("; ", path)),
    }
}

/// Names the threads that occupied the CPU; empty if there are none.
fn name_occupants(behind: &[Behind]) -> String {
    let mut names = Vec::new();
    for Behind { comm, ns } in behind.iter().take(MAX_NAMED) {
        names.push(format!("{} {}", to_printable_message(comm), format_time(*ns as i64)));
    }
    if names.is_empty() { String::new() } else { format!(" (behind {})", names.join(", ")) }
}

/// Returns the links of a wake-up path with their names in the file.
pub fn links(chain: &Chain) -> impl Iterator<Item = (&'static str, i64)> {
    let links = [
        ("timer", Some(chain.timer_ns)),
        ("woken", Some(chain.woken_ns)),
        ("on_cpu", Some(chain.on_cpu_ns)),
        ("runtime", chain.runtime_ns),
        ("task", Some(chain.task_ns)),
    ];
    links.into_iter().filter_map(|(name, ns)| Some((name, ns?)))
}

/// Formats the share of a cause in a round, for a tooltip.
pub fn format_class_share(shares: &Shares, class: Class) -> String {
    format!("{}: {}", class_name(class), format_share(shares.ns(class), shares.total_ns()))
}

#[cfg(test)]
mod tests {
    use files::file::File as _;
    use files::report::why::{Difference, Evidence, Link, Missing, Why};

    use super::*;
    use crate::document::{Document, markdown, terminal};

    fn report_with(why: Why) -> Report {
        let mut report =
            Report::from_json(include_str!("../../../../../tests/fixtures/report.json"))
                .expect("a report");
        report.subjects[0].why = Some(why);
        report
    }

    fn why() -> Why {
        let shares = |queue, quota: u64, own_cpu, below: u64, path| Shares {
            queue,
            quota: Some(quota),
            own_cpu,
            below,
            path,
            ..Shares::default()
        };
        let behind = |comm: &str, ns| Behind { comm: comm.to_owned(), ns };
        let occupants = vec![
            behind("cc1plus", 46_000_000),
            behind("kworker/0:1", 9_000_000),
            behind("a\nb\u{1b}[2J", 5_000_000),
        ];
        Why {
            tier: Some(Tier::B1),
            missing: None,
            quantile: Some(0.99),
            threshold_ns: 150_000,
            ticks: 25_000,
            late_ticks: 250,
            episodes: 31,
            lateness_ns: 96_400_000,
            shares_ns: Some(shares(60_000_000, 400_000, 9_000_000, 26_000_000, 1_000_000)),
            ci95: [("queue".to_owned(), [0.551, 0.704])].into(),
            behind: Some(occupants.clone()),
            overhead_ns: Some(Difference { p50: 500, ci95: Some([-300, 1_200]) }),
            overhead_cpu_ns: Some(Difference { p50: 3_700, ci95: None }),
            evidence: Evidence::default(),
            kernel_chain: None,
            code: None,
            longest: vec![LateTick {
                round: 17,
                instance: 0,
                tick: 104,
                lateness_ns: 12_700_000,
                shares_ns: shares(12_000_000, 0, 0, 690_000, 10_000),
                behind: Some(occupants),
                chain: None,
                code: None,
            }],
            rounds: Vec::new(),
        }
    }

    fn document(report: &Report) -> Document {
        let mut document = Document::new();
        add_diagnoses(&mut document, report);
        document
    }

    fn text(report: &Report, columns: usize) -> String {
        terminal::render(&document(report), columns)
    }

    #[test]
    fn small_causes_are_not_listed() {
        let text = text(&report_with(why()), 120);
        let expected = "Why the worst 1 % were late (os-interval, 250 of 25,000 ticks, 31 episodes, 96.4 ms of lateness; tier B1, profiling cost\n\
                        +500 ns [-300 ns, 1.20 us] at p50, +3.70 us of CPU time per tick)\n\
                        share            cause             evidence\n\
                        62.2 % [55, 70]  waited for a CPU  behind cc1plus 48 %, kworker/0:1 9 %, a b\u{fffd}[2J 5 %\n\
                        27.0 %           below the thread  interrupts, waking up an idle CPU, or the host\n\
                        9.3 %            own CPU           its thread was catching up, or busy with other tasks\n\
                        1.0 %            the usual way     from the timer to the task, including the rounding of the runtime's timers\n\n\
                        Round 17, tick 104: 12.7 ms late, 12.0 ms of it waiting for a CPU (behind cc1plus 46.0 ms, kworker/0:1\n\
                        9.00 ms, a b\u{fffd}[2J 5.00 ms), 690 us below the thread.\n";
        assert_eq!(text, expected, "{text}");
    }

    #[test]
    fn host_cause_names_its_evidence() {
        let with = |standstill_ns| {
            let evidence =
                Evidence { steal_ns: Some(20_000_000), standstill_ns, ..Evidence::default() };
            let shares_ns =
                Some(Shares { host: 90_000_000, below: 6_400_000, ..Shares::default() });
            text(&report_with(Why { shares_ns, evidence, ..why() }), 200)
        };
        let account = "the hypervisor reports 20.0 ms in these rounds\n";
        let shown = with(Some(64_000_000));
        assert!(
            shown.contains(&format!(
                "host              the whole machine stopped for 64.0 ms; {account}"
            )),
            "{shown}"
        );
        assert!(
            [None, Some(0)]
                .into_iter()
                .all(|none| with(none).contains(&format!("host              {account}")))
        );
    }

    #[test]
    fn program_is_explained_before_tickers() {
        let mut report = report_with(why());
        let mut program = report.subjects[0].clone();
        (program.name, program.id) = ("./service".to_owned(), "./service@500us".to_owned());
        let mut scenario = report.plan.scenarios[0].clone();
        (scenario.id, scenario.command) = (program.id.clone(), Some(vec!["./service".to_owned()]));
        report.plan.scenarios.push(scenario);
        report.subjects.push(program);
        let mut shown = Document::new();
        add_main_diagnoses(&mut shown, &report);
        let shown = terminal::render(&shown, 80).replace('\n', " ");
        assert_eq!(shown.matches("Why the worst 1 % were late (./service").count(), 1, "{shown}");
        assert_eq!(shown.matches("Why the worst").count(), 1, "{shown}");
        let ticker = "For comparison, the worst 1 % of os-interval (250 of 25,000 ticks, 31 episodes, 96.4 ms of \
                      lateness): 62.2 % [55, 70] waited for a CPU, 27.0 % below the thread, 9.3 % own CPU, 1.0 % the usual way.";
        assert!(shown.contains(ticker), "{shown}");
        let rest = "The page and osjitter report --format markdown explain the other subject.";
        assert!(shown.contains(rest), "{shown}");
        let all = text(&report, 80);
        assert_eq!(all.matches("Why the worst").count(), 2, "{all}");
    }

    #[test]
    fn wakeup_path_lists_every_link() {
        let chain = Chain {
            timer_ns: 12_578_000,
            woken_ns: 400,
            on_cpu_ns: 118_000,
            runtime_ns: Some(2_300),
            task_ns: 1_300,
        };
        let link = |(name, p50): (&str, i64)| Link {
            name: name.to_owned(),
            p50,
            p99: Some(2 * p50),
            within_1us: 0.9,
        };
        let typical = Chain { timer_ns: -9_000, runtime_ns: None, ..chain };
        let kernel_chain = KernelChain {
            whole: 24_000,
            broken: 12,
            agreement: Some(0.987),
            links: links(&typical).map(link).collect(),
        };
        let mut b2 = Why { tier: Some(Tier::B2), kernel_chain: Some(kernel_chain), ..why() };
        b2.longest[0].chain = Some(chain);
        let shown = text(&report_with(b2), 200).replace('\n', " ");
        let expected = "From timer to task, by the kernel's records of 24,000 ticks, 12 incomplete: at p50, the timer 9.00 us \
                        early, woken +400 ns, on its CPU +118 us, in the task +1.30 us; at p99, the timer 18.0 us early, woken \
                        +800 ns, on its CPU +236 us, in the task +2.60 us. The scheduler statistics of the thread confirm \
                        the wait for a CPU for 98.7 % of the lateness of late ticks. ";
        assert!(shown.trim_end().ends_with(expected.trim_end()), "{shown}");
        let story = "690 us below the thread; the timer +12.6 ms, woken +400 ns, on its CPU +118 us, in the runtime +2.30 us, \
                     in the task +1.30 us.";
        assert!(shown.contains(story), "{shown}");
    }

    #[test]
    fn lower_tier_names_the_next_one() {
        let reason = "perf_event_open: denied; it needs CAP_PERFMON".to_owned();
        let missing = Some(Missing { tier: Tier::B1, reason });
        let a2 = Why { tier: Some(Tier::A2), missing, behind: None, ..why() };
        let text = text(&report_with(a2), 120);
        assert!(
            text.contains("waited for a CPU  (tier B1 would show which threads had it)"),
            "{text}"
        );
        let next = "Tier B1 would add which threads held the CPU; perf_event_open: denied; it needs CAP_PERFMON.\n";
        assert!(text.ends_with(next), "{text}");
        assert!(text.lines().all(|l| l.chars().count() <= 120), "{text}");
    }

    #[test]
    fn lost_records_are_reported() {
        let evidence = Evidence { switches_lost: 1_234, ..Evidence::default() };
        let lossy = text(&report_with(Why { evidence, ..why() }), 200);
        assert!(lossy.contains("lost 1,234 records"), "{lossy}");
        assert!(!text(&report_with(why()), 200).contains("records"));
    }

    #[test]
    fn too_few_ticks_give_no_causes() {
        let few = Why { ticks: 1_900, late_ticks: 19, shares_ns: None, ..why() };
        let shown = text(&report_with(few), 80);
        let joined = shown.replace('\n', " ");
        let length = "too few to say; it takes 20 ticks in 5 episodes, as in about 2,000 ticks";
        assert!(joined.contains(length), "{shown}");
        assert!(!shown.contains("62.2 %"), "{shown}");
        let missing = Some(Missing {
            tier: Tier::A1,
            reason: "accounts of single threads; it needs Linux".to_owned(),
        });
        let none = Why { tier: None, missing, shares_ns: None, longest: Vec::new(), ..why() };
        let shown = text(&report_with(none), 80);
        let joined = shown.replace('\n', " ");
        assert!(
            joined.contains("is not known: accounts of single threads; it needs Linux."),
            "{shown}"
        );
        assert!(shown.lines().count() < 5, "{shown}");
        assert_eq!(
            text(
                &Report::from_json(include_str!("../../../../../tests/fixtures/report.json"))
                    .unwrap(),
                80
            ),
            ""
        );
    }

    #[test]
    fn narrow_terminal_wraps_evidence() {
        let narrow = text(&report_with(why()), 60);
        assert!(narrow.lines().all(|l| l.chars().count() <= 60), "{narrow}");
        assert!(narrow.contains("waited for a CPU  behind cc1plus 48 %,\n"), "{narrow}");
        let markdown = markdown::render(&document(&report_with(why())));
        assert!(
            markdown.contains("| 62.2 % \\[55, 70\\] | waited for a CPU | behind cc1plus"),
            "{markdown}"
        );
    }
}
