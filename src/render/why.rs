//! Why the latest ticks were late, in words: the same lines for the terminal, for Markdown and for
//! the page.

use cli::align::align;
use cli::markdown;
use cli::printable::to_printable_message;
use cli::time::{format_interval, format_number, format_share, format_time};
use cli::wrap::{wrap, wrap_paragraph};
use files::report::why::{Behind, Chain, Class, LateTick, Link, Shares, Tier, Why};
use files::report::{Report, Subject};
use files::why::pool::{MIN_EPISODES, MIN_TICKS};

use crate::render::label::labels;
use crate::render::origin::grouped;

/// A cause below this share of the lateness, or this long altogether, is not worth a line.
const MIN_SHARE: f64 = 0.01;
const MIN_NS: u64 = 10_000;
/// So many are named of those who were in the way.
const NAMED: usize = 3;

/// One subject's answer.
#[derive(Debug)]
pub struct Answer<'a> {
    pub name: String,
    pub why: &'a Why,
}

/// Of every subject that was asked.
pub fn answers(report: &Report) -> impl Iterator<Item = Answer<'_>> {
    let of = |(subject, name): (_, _)| answer(subject, name);
    report.subjects.iter().zip(labels(report).names).filter_map(of)
}

fn answer(subject: &Subject, name: String) -> Option<Answer<'_>> {
    Some(Answer { name, why: subject.why.as_ref()? })
}

/// A cause with its share, and what speaks for it.
#[derive(Debug)]
pub struct Cause {
    pub class: Class,
    /// Per cent of the lateness, with its interval where there is one.
    pub share: String,
    pub words: &'static str,
    pub evidence: String,
}

pub fn words(class: Class) -> &'static str {
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

/// Causes worth a line, the largest first.
fn worth(shares: &Shares) -> Vec<Class> {
    let total = shares.total_ns().max(1) as f64;
    let large = |class: &Class| {
        let ns = shares.ns(*class);
        ns >= MIN_NS && ns as f64 / total >= MIN_SHARE
    };
    let mut all: Vec<Class> = Class::ALL.into_iter().filter(large).collect();
    all.sort_by_key(|class| std::cmp::Reverse(shares.ns(*class)));
    all
}

fn percent(share: f64) -> String {
    format!("{:.1} %", share * 100.0)
}

impl Answer<'_> {
    /// What was asked, in a line.
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
            let reason = w.missing.as_ref().map_or("it was not asked", |m| m.reason.as_str());
            return format!(
                "Why {which} were late ({}): not available here: {}.",
                self.name,
                to_printable_message(reason)
            );
        };
        let counted = format!(
            "{} of {} ticks, {} episodes, {} of lateness",
            grouped(w.late_ticks),
            grouped(w.ticks),
            grouped(w.episodes),
            format_time(w.lateness_ns as i64)
        );
        let too_few = if w.shares_ns.is_some() {
            String::new()
        } else {
            format!(": too few to say; it takes {MIN_TICKS} ticks in {MIN_EPISODES} episodes")
        };
        let signed =
            |ns: i64| if ns < 0 { format_time(ns) } else { format!("+{}", format_time(ns)) };
        let asking = w.overhead_ns.as_ref().map_or(String::new(), |d| {
            let ci =
                d.ci95.map_or(String::new(), |ci| format!(" {}", format_interval(ci[0], ci[1])));
            let cpu = w
                .overhead_cpu_ns
                .as_ref()
                .map_or(String::new(), |d| format!(", {} of CPU a tick", signed(d.p50)));
            format!(", asking cost {}{ci} at p50{cpu}", signed(d.p50))
        });
        format!(
            "Why {which} were late ({}, {counted}; tier {}{asking}){too_few}",
            self.name,
            tier_name(tier)
        )
    }

    /// The causes worth a line; none where there are too few ticks to say.
    pub fn causes(&self) -> Vec<Cause> {
        let Some(shares) = &self.why.shares_ns else { return Vec::new() };
        let total = shares.total_ns().max(1) as f64;
        let cause = |class: Class| {
            let of_all = percent(shares.ns(class) as f64 / total);
            let ci = self.why.ci95.get(class.key());
            let ci = ci.map_or(String::new(), |[low, high]| {
                format!(" [{:.0}, {:.0}]", low * 100.0, high * 100.0)
            });
            Cause {
                class,
                share: of_all + &ci,
                words: words(class),
                evidence: self.evidence(class, total),
            }
        };
        worth(shares).into_iter().map(cause).collect()
    }

    fn evidence(&self, class: Class, total: f64) -> String {
        let evidence = &self.why.evidence;
        match class {
            Class::Queue => match &self.why.behind {
                Some(behind) => behind_whom(behind, total),
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
                let stood = match evidence.standstill_ns {
                    Some(ns @ 1..) => {
                        format!("everything stood still for {}; ", format_time(ns as i64))
                    }
                    _ => String::new(),
                };
                let steal = format_time(evidence.steal_ns.unwrap_or(0) as i64);
                format!("{stood}the hypervisor's account: {steal} in these rounds")
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

    /// What the next tier would add, and what it needs.
    pub fn next(&self) -> Option<String> {
        let missing = self.why.missing.as_ref().filter(|_| self.why.tier.is_some())?;
        let adds = match missing.tier {
            Tier::A1 => "what the thread's accounts say",
            Tier::A2 => "each switch of the thread, to the nanosecond",
            Tier::B1 => "who held the CPU meanwhile",
            Tier::B2 => "when the timer expired",
        };
        Some(format!(
            "Tier {} would add {adds}; {}.",
            tier_name(missing.tier),
            to_printable_message(&missing.reason)
        ))
    }

    /// The way from timer to task, where the kernel's records show it.
    pub fn way(&self) -> Option<String> {
        let chain = self.why.kernel_chain.as_ref().filter(|c| c.whole > 0)?;
        let at = |name: &str, of: &dyn Fn(&Link) -> Option<i64>| {
            let links = chain.links.iter().filter_map(|link| Some((link.name.as_str(), of(link)?)));
            format!("at {name}, {}", stations(links))
        };
        let p99 =
            chain.links.iter().all(|link| link.p99.is_some()).then(|| at("p99", &|link| link.p99));
        let broken = if chain.broken == 0 {
            String::new()
        } else {
            format!(", {} incomplete", grouped(chain.broken))
        };
        let agreement = chain.agreement.map_or(String::new(), |share| {
            format!(
                " On the wait for a CPU, the thread's own account agrees for {} of the lateness of late ones.",
                percent(share)
            )
        });
        Some(format!(
            "From timer to task, by the kernel's records of {} ticks{broken}: {}{}.{agreement}",
            grouped(chain.whole),
            at("p50", &|link| Some(link.p50)),
            p99.map_or(String::new(), |p99| format!("; {p99}")),
        ))
    }

    /// The longest of them, a line each.
    pub fn stories(&self) -> impl Iterator<Item = String> {
        self.why.longest.iter().map(story)
    }
}

/// The stations of the way, each after the one before it.
fn stations<'a>(links: impl Iterator<Item = (&'a str, i64)>) -> String {
    let station = |(name, ns): (&str, i64)| {
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
    links.map(station).collect::<Vec<_>>().join(", ")
}

fn tier_name(tier: Tier) -> &'static str {
    match tier {
        Tier::A1 => "A1",
        Tier::A2 => "A2",
        Tier::B1 => "B1",
        Tier::B2 => "B2",
    }
}

fn behind_whom(behind: &[Behind], total: f64) -> String {
    let large = |ns: u64| ns as f64 / total >= MIN_SHARE;
    let named: Vec<String> = behind
        .iter()
        .take(NAMED)
        .filter(|b| large(b.ns))
        .map(|b| format!("{} {:.0} %", to_printable_message(&b.comm), b.ns as f64 / total * 100.0))
        .collect();
    let others: u64 = behind.iter().skip(named.len()).map(|b| b.ns).sum();
    let others = large(others).then(|| format!("{:.0} % others", others as f64 / total * 100.0));
    let all: Vec<String> = named.into_iter().chain(others).collect();
    if all.is_empty() { String::new() } else { format!("behind {}", all.join(", ")) }
}

fn story(tick: &LateTick) -> String {
    let part = |class: Class| {
        let ns = tick.shares_ns.ns(class);
        let behind = tick.behind.as_ref().filter(|b| class == Class::Queue && !b.is_empty());
        let behind = behind.map_or(String::new(), |b| {
            let names: Vec<String> = b
                .iter()
                .take(NAMED)
                .map(|b| format!("{} {}", to_printable_message(&b.comm), format_time(b.ns as i64)))
                .collect();
            format!(" (behind {})", names.join(", "))
        });
        format!("{} {}{behind}", format_time(ns as i64), words(class))
    };
    let parts: Vec<String> = worth(&tick.shares_ns).into_iter().map(part).collect();
    let way =
        tick.chain.as_ref().map_or(String::new(), |chain| format!("; {}", stations(links(chain))));
    format!(
        "{}, round {} tick {}: {}{way}",
        format_time(tick.lateness_ns as i64),
        tick.round,
        tick.tick,
        parts.join(", ")
    )
}

fn links(chain: &Chain) -> impl Iterator<Item = (&'static str, i64)> {
    let all = [
        ("timer", Some(chain.timer_ns)),
        ("woken", Some(chain.woken_ns)),
        ("on_cpu", Some(chain.on_cpu_ns)),
        ("runtime", chain.runtime_ns),
        ("task", Some(chain.task_ns)),
    ];
    all.into_iter().filter_map(|(name, ns)| Some((name, ns?)))
}

/// For the terminal, below the table; empty where nobody asked.
pub fn text(report: &Report, columns: usize) -> String {
    let paragraph = |text: &str| wrap_paragraph(text, columns);
    let of = |answer: Answer<'_>| {
        let rows: Vec<Vec<String>> = answer
            .causes()
            .into_iter()
            .map(|c| vec![format!("  {}", c.share), c.words.to_owned(), c.evidence])
            .collect();
        let aligned = align(&rows, 3);
        let table = if aligned.lines().all(|line| line.chars().count() <= columns) {
            aligned
        } else {
            let short: Vec<&[String]> = rows.iter().map(|row| &row[..2]).collect();
            let below = |evidence: &str| wrap(evidence, columns.saturating_sub(6).max(20));
            let indented =
                |text: String| text.lines().map(|l| format!("      {l}\n")).collect::<String>();
            align(&short, 2)
                .lines()
                .zip(&rows)
                .map(|(l, row)| format!("{l}\n{}", indented(below(&row[2]))))
                .collect()
        };
        let longest = answer.stories().next().filter(|_| answer.why.tier.is_some());
        let longest =
            longest.map_or(String::new(), |story| paragraph(&format!("Longest: {story}.")));
        let next = answer.next().map_or(String::new(), |next| paragraph(&next));
        let way = answer.way().map_or(String::new(), |way| paragraph(&way));
        format!("\n{}{table}{longest}{way}{next}", paragraph(&answer.heading()))
    };
    answers(report).map(of).collect()
}

/// For a job summary; empty where nobody asked.
pub fn to_markdown(report: &Report) -> String {
    let of = |answer: Answer<'_>| {
        let heading = ["share [95 % interval]", "cause", ""].map(str::to_owned).to_vec();
        let causes = answer.causes();
        let rows = causes.into_iter().map(|c| vec![c.share, c.words.to_owned(), c.evidence]);
        let rows: Vec<Vec<String>> = std::iter::once(heading).chain(rows).collect();
        let table = if rows.len() > 1 {
            format!("\n{}", markdown::format_table(&rows, 3))
        } else {
            String::new()
        };
        let stories: String =
            answer.stories().map(|s| format!("- {}\n", markdown::escape_cell(&s))).collect();
        let next = answer
            .next()
            .map_or(String::new(), |next| format!("\n{}\n", markdown::escape_cell(&next)));
        let way = answer
            .way()
            .map_or(String::new(), |way| format!("\n{}\n", markdown::escape_cell(&way)));
        format!(
            "\n#### {}\n{table}\n{stories}{way}{next}",
            markdown::escape_cell(&answer.heading())
        )
    };
    answers(report).map(of).collect()
}

/// Share of a part of a round's lateness, for a tooltip.
pub fn part_of_round(shares: &Shares, class: Class) -> String {
    format!("{}: {}", words(class), format_share(shares.ns(class), shares.total_ns()))
}

#[cfg(test)]
mod tests {
    use files::file::File as _;
    use files::report::why::{Difference, Evidence, KernelChain, Missing};

    use super::*;

    fn asked(why: Why) -> Report {
        let mut report =
            Report::from_json(include_str!("../../tests/fixtures/report.json")).expect("a report");
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
        let whom = vec![
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
            behind: Some(whom.clone()),
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
                behind: Some(whom),
                chain: None,
            }],
            rounds: Vec::new(),
        }
    }

    #[test]
    fn causes_are_said_in_words_and_none_too_small() {
        let text = text(&asked(why()), 120);
        let expected = "\nWhy the latest 1 % were late (os-interval, 250 of 25,000 ticks, 31 episodes,\n\
                        96.4 ms of lateness; tier B1, asking cost +500 ns [-300 ns, 1.20 us] at p50,\n\
                        +3.70 us of CPU a tick)\n  \
                        62.2 % [55, 70]  waited for a CPU  behind cc1plus 48 %, kworker/0:1 9 %, a b\u{fffd}[2J 5 %\n  \
                        27.0 %           below the thread  interrupts, the way out of idle, or the host\n  \
                        9.3 %            own CPU           catching up, or busy with other tasks\n  \
                        1.0 %            the usual way     from the timer to the task, rounding of the runtime's timers included\n\
                        Longest: 12.7 ms, round 17 tick 104: 12.0 ms waited for a CPU (behind cc1plus\n\
                        46.0 ms, kworker/0:1 9.00 ms, a b\u{fffd}[2J 5.00 ms), 690 us below the thread.\n";
        assert_eq!(text, expected, "{text}");
    }

    #[test]
    fn what_speaks_for_the_host_is_named() {
        let with = |standstill_ns| {
            let evidence =
                Evidence { steal_ns: Some(20_000_000), standstill_ns, ..Evidence::default() };
            let shares_ns =
                Some(Shares { host: 90_000_000, below: 6_400_000, ..Shares::default() });
            text(&asked(Why { shares_ns, evidence, ..why() }), 200)
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
    fn the_way_through_the_kernel_is_told_link_by_link() {
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
        let said = text(&asked(b2), 200).replace('\n', " ");
        let expected = "From timer to task, by the kernel's records of 24,000 ticks, 12 incomplete: at p50, the timer 9.00 us \
                        early, woken +400 ns, on its CPU +118 us, in the task +1.30 us; at p99, the timer 18.0 us early, woken \
                        +800 ns, on its CPU +236 us, in the task +2.60 us. On the wait for a CPU, the thread's own account \
                        agrees for 98.7 % of the lateness of late ones. ";
        assert!(said.ends_with(expected), "{said}");
        let story = "690 us below the thread; the timer +12.6 ms, woken +400 ns, on its CPU +118 us, in the runtime +2.30 us, \
                     in the task +1.30 us.";
        assert!(said.contains(story), "{said}");
    }

    #[test]
    fn a_lower_tier_says_what_the_next_one_adds_and_needs() {
        let reason = "perf_event_open: denied; it needs CAP_PERFMON".to_owned();
        let missing = Some(Missing { tier: Tier::B1, reason });
        let a2 = Why { tier: Some(Tier::A2), missing, behind: None, ..why() };
        let text = text(&asked(a2), 120);
        assert!(text.contains("waited for a CPU  (by whom: run with CAP_PERFMON)"), "{text}");
        let next = "Tier B1 would add who held the CPU meanwhile; perf_event_open: denied; it needs\nCAP_PERFMON.\n";
        assert!(text.ends_with(next), "{text}");
        assert!(text.lines().all(|l| l.chars().count() <= 120), "{text}");
    }

    #[test]
    fn little_and_nothing_is_said_to_be_so() {
        let few = Why { late_ticks: 19, shares_ns: None, ..why() };
        let said = text(&asked(few), 80);
        assert!(said.contains("too few to say; it takes 20 ticks in 5 episodes"), "{said}");
        assert!(!said.contains("62.2 %"), "{said}");
        let missing = Some(Missing {
            tier: Tier::A1,
            reason: "accounts of single threads; it needs Linux".to_owned(),
        });
        let none = Why { tier: None, missing, shares_ns: None, longest: Vec::new(), ..why() };
        let said = text(&asked(none), 80);
        let joined = said.replace('\n', " ");
        assert!(
            joined.contains("not available here: accounts of single threads; it needs Linux."),
            "{said}"
        );
        assert!(said.lines().count() < 5, "{said}");
        assert_eq!(
            text(&Report::from_json(include_str!("../../tests/fixtures/report.json")).unwrap(), 80),
            ""
        );
    }

    #[test]
    fn a_narrow_terminal_gets_the_evidence_below() {
        let narrow = text(&asked(why()), 60);
        assert!(narrow.lines().all(|l| l.chars().count() <= 60), "{narrow}");
        assert!(narrow.contains("waited for a CPU\n      behind cc1plus"), "{narrow}");
        let markdown = to_markdown(&asked(why()));
        assert!(
            markdown.contains("| 62.2 % \\[55, 70\\] | waited for a CPU | behind cc1plus"),
            "{markdown}"
        );
    }
}
