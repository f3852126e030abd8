//! Numbers of a whole run of a program: what the system knows of it, and what the program writes of
//! itself.

use std::time::Duration;

use jitterstat::gate::round::{tail_name, tail_quantile};
use jitterstat::series::{self, Better, Metric};

use crate::machine::os::{self, Instructions, TreeUsage};
use crate::measure::child::{self, RunFailure, RunRequest};
use crate::measure::program_output;
use crate::program::Program;

/// CPU time below this has no meaningful logarithm: it is this.
const MIN_CPU_NS: u64 = 1_000;
/// A run that writes so many times more or fewer samples than the first one is another kind of run.
const OTHER_LENGTH: u64 = 2;
const PERCENTILES: [(&str, f64); 4] = [("p50", 0.50), ("p90", 0.90), ("p95", 0.95), ("p99", 0.99)];

/// What a user asks to be judged.
#[derive(Clone, Debug, PartialEq)]
pub enum MetricSpec {
    Wall,
    Cpu,
    MaxRss,
    /// Executed in user mode.
    Instructions,
    /// What the program writes: its value, or the median and tail of its samples, or the percentile
    /// that is named.
    Custom(String, Option<f64>),
}

impl MetricSpec {
    /// Reads `wall`, `latency`, `latency:p99`.
    pub fn parse(text: &str) -> Result<Self, String> {
        let own = || match text.split_once(':') {
            None => Ok(Self::Custom(text.to_owned(), None)),
            Some((name, percentile)) => PERCENTILES
                .iter()
                .find(|(known, _)| *known == percentile)
                .map(|(_, q)| Self::Custom(name.to_owned(), Some(*q)))
                .ok_or_else(|| {
                    format!("no percentile {percentile:?}; write {name}:p50, p90, p95 or p99")
                }),
        };
        match text {
            "wall" => Ok(Self::Wall),
            "cpu" => Ok(Self::Cpu),
            "max-rss" => Ok(Self::MaxRss),
            "instructions" => Ok(Self::Instructions),
            "" => Err("an empty name is no metric".to_owned()),
            _ => own(),
        }
    }

    /// Whether starting a process is a part of it.
    pub fn includes_startup(&self) -> bool {
        matches!(self, Self::Wall | Self::Cpu | Self::Instructions)
    }
}

/// One number a run: what is judged.
#[derive(Clone, Debug, PartialEq)]
pub struct ProgramMetric {
    /// As on the command line: `wall`, `latency:p99`.
    pub name: String,
    pub unit: String,
    pub higher_is_better: bool,
    of: MetricSpec,
    /// Samples of it in the first run.
    samples: u64,
}

/// What a run showed.
pub struct RunValues {
    pub wall: Duration,
    usage: TreeUsage,
    /// Or why they were not counted.
    instructions: Result<u64, String>,
    own: Vec<Metric>,
}

/// Runs a program once.
pub fn run(
    program: &Program,
    wanted: &[MetricSpec],
    asked: RunRequest,
    stop: &std::sync::atomic::AtomicBool,
) -> Result<RunValues, RunFailure> {
    let counter = wanted.contains(&MetricSpec::Instructions).then(Instructions::for_next_program);
    let ran = child::run(program, asked, stop)?;
    let instructions = counter.map_or(Ok(0), |counter| {
        let counter = counter.map_err(|e| e.to_string())?;
        counter.count().map_err(|e| e.to_string())
    });
    let has_own = wanted.iter().any(|wanted| matches!(wanted, MetricSpec::Custom(..)));
    // A program that writes nothing is no failure of its own: that a metric is missing is.
    let own = if has_own && ran.out().exists() {
        program_output::read_metrics(&ran.out())
    } else {
        Ok(Vec::new())
    };
    let own = own.map_err(|what| RunFailure::Failed(format!("{}: {what}", program.text())))?;
    Ok(RunValues { wall: ran.wall, usage: ran.usage, instructions, own })
}

/// The numbers that are wanted, as the first run shows them.
///
/// # Errors
/// One of them is not to be had, and why.
pub fn resolve_metrics(
    wanted: &[MetricSpec],
    shown: &RunValues,
) -> Result<Vec<ProgramMetric>, String> {
    let mut all = Vec::new();
    for of in wanted {
        let system = |name: &str, unit: &str| ProgramMetric {
            name: name.into(),
            unit: unit.into(),
            higher_is_better: false,
            of: of.clone(),
            samples: 1,
        };
        match of {
            MetricSpec::Wall => all.push(system("wall", "ns")),
            MetricSpec::Cpu => all.push(system("cpu", "ns")),
            MetricSpec::MaxRss => {
                // A process takes over the largest size of the one that starts it.
                let own = os::inherited_rss();
                if shown.usage.max_rss <= own {
                    return Err(format!(
                        "max-rss cannot be measured below the {} MiB of osjitter itself",
                        own >> 20
                    ));
                }
                all.push(system("max-rss", "bytes"));
            }
            MetricSpec::Instructions => {
                shown.instructions()?;
                all.push(system("instructions", "instructions"));
            }
            MetricSpec::Custom(name, percentile) => {
                let metric = shown.own(name)?;
                let samples = metric.samples.count();
                let number = |name: String, percentile| ProgramMetric {
                    name,
                    unit: metric.unit.clone(),
                    higher_is_better: metric.better == Better::Higher,
                    of: MetricSpec::Custom(metric.name.clone(), percentile),
                    samples,
                };
                let tail = tail_quantile(samples);
                match percentile {
                    None if samples == 1 => all.push(number(name.clone(), None)),
                    None => {
                        all.push(number(format!("{name}:p50"), Some(0.50)));
                        all.push(number(format!("{name}:{}", tail_name(tail)), Some(tail)));
                    }
                    Some(q) => {
                        let label = PERCENTILES
                            .iter()
                            .find(|(_, known)| known == q)
                            .map_or("p50", |(label, _)| label);
                        all.push(number(format!("{name}:{label}"), Some(*q)));
                    }
                }
            }
        }
    }
    Ok(all)
}

impl RunValues {
    fn instructions(&self) -> Result<u64, String> {
        let why = match &self.instructions {
            // No program gets by with none.
            Ok(0) => "the counter shows none",
            Ok(count) => return Ok(*count),
            Err(why) => why,
        };
        Err(format!("instructions cannot be counted: {why}"))
    }

    fn own(&self, name: &str) -> Result<&Metric, String> {
        let found =
            self.own.iter().find(|metric| metric.name == name && metric.samples.count() > 0);
        found.ok_or_else(|| {
            let names: Vec<&str> = self.own.iter().map(|metric| metric.name.as_str()).collect();
            let writes = if names.is_empty() { "none".to_owned() } else { names.join(", ") };
            format!(
                "it writes no metric {name:?} to {}; of its own it writes {writes}",
                series::ENV_OUT
            )
        })
    }
}

impl ProgramMetric {
    /// Its value in a run, above zero.
    ///
    /// # Errors
    /// The run does not show it, or shows something else than the first run did.
    pub fn value(&self, shown: &RunValues) -> Result<f64, String> {
        let (name, percentile) = match &self.of {
            MetricSpec::Wall => return Ok(shown.wall.as_nanos().max(1) as f64),
            MetricSpec::Cpu => return Ok(shown.usage.cpu_ns.max(MIN_CPU_NS) as f64),
            MetricSpec::MaxRss => return Ok(shown.usage.max_rss.max(1) as f64),
            MetricSpec::Instructions => return shown.instructions().map(|count| count as f64),
            MetricSpec::Custom(name, percentile) => (name, percentile),
        };
        let metric = shown.own(name)?;
        let (unit, higher) = (&metric.unit, metric.better == Better::Higher);
        if (unit, higher) != (&self.unit, self.higher_is_better) {
            let better = metric.better;
            return Err(format!(
                "{name} is in {unit}, {better} is better; in the first run it was in {}",
                self.unit
            ));
        }
        let (now, first) = (metric.samples.count(), self.samples);
        if (now == 1) != (first == 1) || now > first * OTHER_LENGTH || first > now * OTHER_LENGTH {
            return Err(format!("it wrote {now} values of {name}, and {first} in the first run"));
        }
        metric
            .samples
            .quantile(percentile.unwrap_or(1.0))
            .ok_or_else(|| format!("{name} has no value"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(series: &str) -> RunValues {
        let own = series::metrics(format!("{}\n{series}", series::SCHEMA).as_bytes()).unwrap();
        let usage = TreeUsage { max_rss: u64::MAX, ..TreeUsage::default() };
        RunValues { wall: Duration::from_millis(50), usage, instructions: Ok(7_000_000), own }
    }

    fn wanted(names: &[&str]) -> Vec<MetricSpec> {
        names.iter().map(|name| MetricSpec::parse(name).unwrap()).collect()
    }

    #[test]
    fn samples_are_judged_at_two_percentiles_and_a_value_by_itself() {
        let samples: String = (1..=200).map(|i| format!("x {i}\n")).collect();
        let shown = shown(&format!("metric x ns lower\nmetric y /s higher\ny 7\n{samples}"));
        let numbers = resolve_metrics(
            &wanted(&["x", "y", "x:p90", "wall", "cpu", "max-rss", "instructions"]),
            &shown,
        )
        .unwrap();
        let found: Vec<(&str, f64)> =
            numbers.iter().map(|n| (n.name.as_str(), n.value(&shown).unwrap())).collect();
        assert_eq!(found[..4], [("x:p50", 100.0), ("x:p99", 198.0), ("y", 7.0), ("x:p90", 180.0)]);
        assert_eq!(
            found[4..],
            [("wall", 5e7), ("cpu", 1e3), ("max-rss", u64::MAX as f64), ("instructions", 7e6)]
        );
        assert_eq!(
            numbers.iter().map(|n| n.higher_is_better).collect::<Vec<_>>(),
            [false, false, true, false, false, false, false, false]
        );
    }

    #[test]
    fn a_count_that_is_not_to_be_had_is_asked_for_at_the_first_run_and_at_each() {
        let counted = shown("");
        let number = resolve_metrics(&wanted(&["instructions"]), &counted).unwrap().remove(0);
        for (instructions, why) in
            [(Err("it needs a counter".to_owned()), "it needs a counter"), (Ok(0), "shows none")]
        {
            let shown = RunValues { instructions, own: Vec::new(), ..counted };
            let refused = [
                resolve_metrics(&wanted(&["instructions"]), &shown).unwrap_err(),
                number.value(&shown).unwrap_err(),
            ];
            assert!(
                refused
                    .iter()
                    .all(|says| says.starts_with("instructions cannot") && says.ends_with(why)),
                "{refused:?}"
            );
            assert!(resolve_metrics(&wanted(&["wall"]), &shown).is_ok(), "nobody asked for it");
        }
    }

    #[test]
    fn what_a_run_does_not_show_or_shows_otherwise_is_named() {
        let first = shown("metric x ns lower\nx 1\nx 2\nx 3\nmetric y ns lower\n");
        let missing = |name| resolve_metrics(&wanted(&[name]), &first).unwrap_err();
        assert!(
            missing("z").contains("no metric \"z\"")
                && missing("z").contains("x, y")
                && missing("y").contains("\"y\"")
        );
        assert!(MetricSpec::parse("x:p98").is_err() && MetricSpec::parse("").is_err());
        let x = &resolve_metrics(&wanted(&["x"]), &first).unwrap()[0];
        for (series, says) in [
            ("metric x us lower\nx 1\nx 2\n", "in us"),
            ("metric x ns higher\nx 1\nx 2\n", "higher"),
            ("metric x ns lower\nx 1\n", "wrote 1 values of x, and 3"),
            ("metric x ns lower\nx 1\nx 1\nx 1\nx 1\nx 1\nx 1\nx 1\n", "wrote 7"),
            ("", "writes none"),
        ] {
            let error = x.value(&shown(series)).unwrap_err();
            assert!(error.contains(says), "{series}: {error}");
        }
    }
}
