//! Explains in words why the latest ticks were late, for the terminal, Markdown and the page.

use cli::printable::to_printable_message;
use cli::time::{format_interval, format_number, format_share, format_time};
use files::report::why::{Behind, Chain, Class, LateTick, Link, Shares, Tier, Why};
use files::report::{Report, Subject};
use files::why::pool::{MIN_EPISODES, MIN_TICKS};

use crate::document::{Document, Table};
use crate::report::label::labels;
use crate::report::origin::group_digits;

/// Minimum share of the lateness, and minimum total time, of a cause that is listed.
const MIN_SHARE: f64 = 0.01;
const MIN_NS: u64 = 10_000;
/// Maximum number of threads that are named as occupying the CPU.
const MAX_NAMED: usize = 3;

/// The diagnosis of one subject.
#[derive(Debug)]
pub struct Diagnosis<'a> {
    pub name: String,
    pub why: &'a Why,
}

/// Returns the diagnoses of all profiled subjects.
pub fn diagnoses(report: &Report) -> impl Iterator<Item = Diagnosis<'_>> {
    let named = report.subjects.iter().zip(labels(report).names);
    named.filter_map(|(subject, name)| diagnosis(subject, name))
}

fn diagnosis(subject: &Subject, name: String) -> Option<Diagnosis<'_>> {
    Some(Diagnosis { name, why: subject.why.as_ref()? })
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
    let large = |class: &Class| {
        let ns = shares.ns(*class);
        ns >= MIN_NS && ns as f64 / total >= MIN_SHARE
    };
    let mut classes: Vec<Class> = Class::ALL.into_iter().filter(large).collect();
    classes.sort_by_key(|class| std::cmp::Reverse(shares.ns(*class)));
    classes
}

fn format_percent(share: f64) -> String {
    format!("{:.1} %", share * 100.0)
}

impl Diagnosis<'_> {
    /// Returns a line with the subject, the selected ticks and the cost of profiling.
    pub fn heading(&self) -> String {
        let w = self.why;
        let which = match w.quantile {
            Some(q) => format!(
                "the latest {} %",
                format_number((1.0 - q) * 100.0).trim_end_matches('0').trim_end_matches('.')
            ),
            None => format!("ticks of {} and more", format_time(w.threshold_ns as i64)),
        };
        let Some(tier) = w.tier else {
            let reason =
                w.missing.as_ref().map_or("the subject was not profiled", |m| m.reason.as_str());
            return format!(
                "Why {which} were late ({}): not available here: {}.",
                self.name,
                to_printable_message(reason)
            );
        };
        let counts = format!(
            "{} of {} ticks, {} episodes, {} of lateness",
            group_digits(w.late_ticks),
            group_digits(w.ticks),
            group_digits(w.episodes),
            format_time(w.lateness_ns as i64)
        );
        let too_few = if w.shares_ns.is_some() {
            String::new()
        } else {
            format!(": too few to say; it takes {MIN_TICKS} ticks in {MIN_EPISODES} episodes")
        };
        let format_signed =
            |ns: i64| if ns < 0 { format_time(ns) } else { format!("+{}", format_time(ns)) };
        let overhead = w.overhead_ns.as_ref().map_or(String::new(), |d| {
            let ci =
                d.ci95.map_or(String::new(), |ci| format!(" {}", format_interval(ci[0], ci[1])));
            let cpu = w
                .overhead_cpu_ns
                .as_ref()
                .map_or(String::new(), |d| format!(", {} of CPU a tick", format_signed(d.p50)));
            format!(", profiling cost {}{ci} at p50{cpu}", format_signed(d.p50))
        });
        format!(
            "Why {which} were late ({}, {counts}; tier {}{overhead}){too_few}",
            self.name,
            tier_name(tier)
        )
    }

    /// Returns the causes to list; empty if there are too few ticks to judge.
    pub fn causes(&self) -> Vec<Cause> {
        let Some(shares) = &self.why.shares_ns else { return Vec::new() };
        let total = shares.total_ns().max(1) as f64;
        let cause = |class: Class| {
            let share = format_percent(shares.ns(class) as f64 / total);
            let ci = self.why.ci95.get(class.key());
            let ci = ci.map_or(String::new(), |[low, high]| {
                format!(" [{:.0}, {:.0}]", low * 100.0, high * 100.0)
            });
            Cause {
                class,
                share: share + &ci,
                words: class_name(class),
                evidence: self.evidence(class, total),
            }
        };
        significant_classes(shares).into_iter().map(cause).collect()
    }

    fn evidence(&self, class: Class, total: f64) -> String {
        let evidence = &self.why.evidence;
        match class {
            Class::Queue => match &self.why.behind {
                Some(behind) => format_occupants(behind, total),
                None => "(by whom: run with CAP_PERFMON)".to_owned(),
            },
            Class::Quota => {
                let periods = evidence.throttled_periods.unwrap_or(0);
                format!("{periods} throttled periods in these rounds")
            }
            Class::OwnCpu => "catching up, or busy with other tasks".to_owned(),
            Class::Faults => "estimated from their number".to_owned(),
            Class::Blocked => {
                "off the CPU while it was to run tasks: I/O, a lock or a sleep".to_owned()
            }
            Class::Stopped => "by a signal, or frozen with its control group".to_owned(),
            Class::Slack => "at most; the kernel delays such timers on purpose".to_owned(),
            Class::Host => {
                let standstill = match evidence.standstill_ns {
                    Some(ns @ 1..) => {
                        format!("everything stood still for {}; ", format_time(ns as i64))
                    }
                    _ => String::new(),
                };
                let steal = format_time(evidence.steal_ns.unwrap_or(0) as i64);
                format!("{standstill}the hypervisor's account: {steal} in these rounds")
            }
            Class::Below => "interrupts, the way out of idle, or the host".to_owned(),
            Class::Path => {
                "from the timer to the task, rounding of the runtime's timers included".to_owned()
            }
            Class::Unexplained if evidence.threads > 1 => {
                "tasks may move between threads".to_owned()
            }
            Class::Unexplained => String::new(),
        }
    }

    /// Returns what the next tier would add, and its requirements.
    pub fn next_tier(&self) -> Option<String> {
        let missing = self.why.missing.as_ref().filter(|_| self.why.tier.is_some())?;
        let adds = match missing.tier {
            Tier::A1 => "the accounts of the thread",
            Tier::A2 => "each switch of the thread, to the nanosecond",
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
        let chain = self.why.kernel_chain.as_ref().filter(|c| c.whole > 0)?;
        let at = |name: &str, value: &dyn Fn(&Link) -> Option<i64>| {
            let links =
                chain.links.iter().filter_map(|link| Some((link.name.as_str(), value(link)?)));
            format!("at {name}, {}", format_links(links))
        };
        let p99 =
            chain.links.iter().all(|link| link.p99.is_some()).then(|| at("p99", &|link| link.p99));
        let broken = if chain.broken == 0 {
            String::new()
        } else {
            format!(", {} incomplete", group_digits(chain.broken))
        };
        let agreement = chain.agreement.map_or(String::new(), |share| {
            format!(
                " On the wait for a CPU, the thread's own account agrees for {} of the lateness of late ones.",
                format_percent(share)
            )
        });
        Some(format!(
            "From timer to task, by the kernel's records of {} ticks{broken}: {}{}.{agreement}",
            group_digits(chain.whole),
            at("p50", &|link| Some(link.p50)),
            p99.map_or(String::new(), |p99| format!("; {p99}")),
        ))
    }

    /// Describes the longest late ticks, one line each.
    pub fn longest_ticks(&self) -> impl Iterator<Item = String> {
        self.why.longest.iter().map(format_late_tick)
    }
}

/// Formats the links of a wake-up path, each relative to the one before it.
fn format_links<'a>(links: impl Iterator<Item = (&'a str, i64)>) -> String {
    let format_link = |(name, ns): (&str, i64)| {
        let what = match name {
            "timer" => {
                return if ns < 0 {
                    format!("the timer {} early", format_time(-ns))
                } else {
                    format!("the timer +{}", format_time(ns))
                };
            }
            "woken" => "woken",
            "on_cpu" => "on its CPU",
            "runtime" => "in the runtime",
            _ => "in the task",
        };
        format!("{what} +{}", format_time(ns))
    };
    links.map(format_link).collect::<Vec<_>>().join(", ")
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
    let large = |ns: u64| ns as f64 / total >= MIN_SHARE;
    let named: Vec<String> = behind
        .iter()
        .take(MAX_NAMED)
        .filter(|b| large(b.ns))
        .map(|b| format!("{} {:.0} %", to_printable_message(&b.comm), b.ns as f64 / total * 100.0))
        .collect();
    let others: u64 = behind.iter().skip(named.len()).map(|b| b.ns).sum();
    let others = large(others).then(|| format!("{:.0} % others", others as f64 / total * 100.0));
    let occupants: Vec<String> = named.into_iter().chain(others).collect();
    if occupants.is_empty() { String::new() } else { format!("behind {}", occupants.join(", ")) }
}

fn format_late_tick(tick: &LateTick) -> String {
    let part = |class: Class| {
        let ns = tick.shares_ns.ns(class);
        let behind = tick.behind.as_ref().filter(|b| class == Class::Queue && !b.is_empty());
        let behind = behind.map_or(String::new(), |b| {
            let names: Vec<String> = b
                .iter()
                .take(MAX_NAMED)
                .map(|b| format!("{} {}", to_printable_message(&b.comm), format_time(b.ns as i64)))
                .collect();
            format!(" (behind {})", names.join(", "))
        });
        format!("{} {}{behind}", format_time(ns as i64), class_name(class))
    };
    let parts: Vec<String> = significant_classes(&tick.shares_ns).into_iter().map(part).collect();
    let path = tick
        .chain
        .as_ref()
        .map_or(String::new(), |chain| format!("; {}", format_links(links(chain))));
    format!(
        "{}, round {} tick {}: {}{path}",
        format_time(tick.lateness_ns as i64),
        tick.round,
        tick.tick,
        parts.join(", ")
    )
}

fn links(chain: &Chain) -> impl Iterator<Item = (&'static str, i64)> {
    let links = [
        ("timer", Some(chain.timer_ns)),
        ("woken", Some(chain.woken_ns)),
        ("on_cpu", Some(chain.on_cpu_ns)),
        ("runtime", chain.runtime_ns),
        ("task", Some(chain.task_ns)),
    ];
    links.into_iter().filter_map(|(name, ns)| Some((name, ns?)))
}

/// Adds a section for each profiled subject.
pub fn add_diagnoses(document: &mut Document, report: &Report) {
    for diagnosis in diagnoses(report) {
        add_diagnosis(document, &diagnosis);
    }
}

fn add_diagnosis(document: &mut Document, diagnosis: &Diagnosis<'_>) {
    document.section(diagnosis.heading());
    let mut table = Table::new(["share", "cause", "evidence"], 2).with_words_last();
    for cause in diagnosis.causes() {
        table.row([cause.share.as_str(), cause.words, &cause.evidence]);
    }
    if !table.is_empty() {
        document.table(table);
    }
    let longest = diagnosis.longest_ticks().filter(|_| diagnosis.why.tier.is_some());
    document.notes(longest.map(|tick| format!("Late by {tick}.")));
    document.notes(diagnosis.wakeup_path().into_iter().chain(diagnosis.next_tier()));
}

/// Formats the share of a cause in a round, for a tooltip.
pub fn format_class_share(shares: &Shares, class: Class) -> String {
    format!("{}: {}", class_name(class), format_share(shares.ns(class), shares.total_ns()))
}

#[cfg(test)]
mod tests {
    use files::file::File as _;
    use files::report::why::{Difference, Evidence, KernelChain, Missing};

    use super::*;
    use crate::document::{markdown, terminal};

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
            longest: vec![LateTick {
                round: 17,
                instance: 0,
                tick: 104,
                lateness_ns: 12_700_000,
                shares_ns: shares(12_000_000, 0, 0, 690_000, 10_000),
                behind: Some(occupants),
                chain: None,
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
        let expected = "Why the latest 1 % were late (os-interval, 250 of 25,000 ticks, 31 episodes, 96.4 ms of lateness; tier B1, profiling\n\
                        cost +500 ns [-300 ns, 1.20 us] at p50, +3.70 us of CPU a tick)\n\
                        share            cause             evidence\n\
                        62.2 % [55, 70]  waited for a CPU  behind cc1plus 48 %, kworker/0:1 9 %, a b\u{fffd}[2J 5 %\n\
                        27.0 %           below the thread  interrupts, the way out of idle, or the host\n\
                        9.3 %            own CPU           catching up, or busy with other tasks\n\
                        1.0 %            the usual way     from the timer to the task, rounding of the runtime's timers included\n\n\
                        Late by 12.7 ms, round 17 tick 104: 12.0 ms waited for a CPU (behind cc1plus\n\
                        46.0 ms, kworker/0:1 9.00 ms, a b\u{fffd}[2J 5.00 ms), 690 us below the thread.\n";
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
        let account = "the hypervisor's account: 20.0 ms in these rounds\n";
        assert!(
            with(Some(64_000_000)).contains(&format!(
                "host              everything stood still for 64.0 ms; {account}"
            ))
        );
        assert!(
            [None, Some(0)]
                .into_iter()
                .all(|none| with(none).contains(&format!("host              {account}")))
        );
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
                        +800 ns, on its CPU +236 us, in the task +2.60 us. On the wait for a CPU, the thread's own account \
                        agrees for 98.7 % of the lateness of late ones. ";
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
        assert!(text.contains("waited for a CPU  (by whom: run with CAP_PERFMON)"), "{text}");
        let next = "Tier B1 would add which threads held the CPU; perf_event_open: denied; it needs\nCAP_PERFMON.\n";
        assert!(text.ends_with(next), "{text}");
        assert!(text.lines().all(|l| l.chars().count() <= 120), "{text}");
    }

    #[test]
    fn too_few_ticks_give_no_causes() {
        let few = Why { late_ticks: 19, shares_ns: None, ..why() };
        let shown = text(&report_with(few), 80);
        assert!(shown.contains("too few to say; it takes 20 ticks in 5 episodes"), "{shown}");
        assert!(!shown.contains("62.2 %"), "{shown}");
        let missing = Some(Missing {
            tier: Tier::A1,
            reason: "accounts of single threads; it needs Linux".to_owned(),
        });
        let none = Why { tier: None, missing, shares_ns: None, longest: Vec::new(), ..why() };
        let shown = text(&report_with(none), 80);
        let joined = shown.replace('\n', " ");
        assert!(
            joined.contains("not available here: accounts of single threads; it needs Linux."),
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
