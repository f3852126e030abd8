//! The command line: its structs and help texts.

use crate::bench::BenchCommand;
use crate::doctor::args::DoctorArgs;
use crate::trace::args::TraceArgs;
use clap::{Parser, Subcommand};
use cli::terminal::TerminalArgs;

use crate::compare::args::CompareArgs;
use crate::find::args::FindArgs;
use crate::gate::args::GateArgs;
use crate::gate::calibrate::args::CalibrateArgs;
use crate::history::HistoryArgs;
use crate::list::ListArgs;
use crate::merge::MergeArgs;
use crate::monitor::args::MonitorArgs;
use crate::report::args::ReportArgs;
use crate::run::args::RunArgs;
use crate::run::new_plan::NewPlanArgs;
use crate::settings::SettingsArgs;
use crate::top::TopArgs;

/// Measures how late periodic async tasks are and what punctuality costs.
#[derive(Debug, Parser)]
#[command(version, about, after_help = EXAMPLES)]
pub struct Cli {
    #[command(subcommand)]
    pub command: Command,
    #[command(flatten)]
    pub settings: SettingsArgs,
    #[command(flatten)]
    pub terminal: TerminalArgs,
}

const EXAMPLES: &str = "\
Examples:
  osjitter run --period 500us --ticks 10000      which ticker to use here
  osjitter run --period 1ms -- ./my-loop         your program in the same rounds
  osjitter doctor                                what makes ticks late here
  osjitter gate --bench parser --base main       benchmarks of two commits

  osjitter run --subject os-interval --why       what delayed the worst ticks
  osjitter run --plan plan.toml --out results/mine
  osjitter run --period 1ms --print-plan > plan.toml
  osjitter new-plan plan.toml                    a plan with comments
  osjitter find --goal p99=100us                 the shortest period this machine can sustain
  osjitter report results/mine/report.json
  osjitter gate --a tokio-interval --b os-interval --period 500us
  osjitter gate --base-cmd './old' --candidate-cmd './new'
  osjitter calibrate                             what a gate can detect on this machine
  osjitter compare before after                  how much later one run is than another
  osjitter bench clock
  osjitter bench timeout                         what a timeout around every wait costs
  osjitter bench dispatch                        the cost of dispatch on a runtime that never parks
  osjitter top                                   the metered loops of running programs, live
  osjitter monitor --log jitter --listen 9891    lateness for days: interval files and metrics
  osjitter trace --pid 1234 --duration 10s       the timers of any program, and what delayed them
  osjitter list

Project defaults live in osjitter.toml; `osjitter run --print-config` shows them.
First questions: https://github.com/osjitter/osjitter/blob/main/docs/src/questions.md

Exit codes: 0 done, pass or inconclusive, 1 regressed or a limit broken, 2 bad usage or input, 3 inconclusive under \
--on-inconclusive fail, 4 not measured or interrupted.";

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Measure how late tickers are and what they cost
    Run(Box<RunArgs>),
    /// Write a plan with comments that explain its keys
    NewPlan(NewPlanArgs),
    /// Find the shortest period that meets goals, or the best goals that hold at a period
    Find(Box<FindArgs>),
    /// Show a report or another result file in any format
    Report(ReportArgs),
    /// Decide whether B is later than A, a stored baseline or a limit, with a bounded rate of false
    /// alarms
    Gate(Box<GateArgs>),
    /// Find the smallest change that a gate can detect here (A/A test)
    Calibrate(Box<CalibrateArgs>),
    /// Compare B with A: two reports, or two subjects of one report
    Compare(CompareArgs),
    /// Merge reports of several runs, CPUs or hosts without loss
    Merge(MergeArgs),
    /// List the runs in a directory and show which are comparable
    History(HistoryArgs),
    /// Show what makes ticks late on this machine and how to change it
    Doctor(DoctorArgs),
    /// List the subjects and show which cannot run here
    List(ListArgs),
    /// Benchmark clocks, timeouts or task dispatch in isolation
    #[command(subcommand)]
    Bench(BenchCommand),
    /// Show how late the timers of any program are and what delayed them (Linux, root)
    Trace(Box<TraceArgs>),
    /// Watch the metered loops of running programs
    Top(TopArgs),
    /// Watch probes and metered loops for days, with interval files, Prometheus metrics and limits
    Monitor(Box<MonitorArgs>),
    /// Print a completion script for a shell
    Completions { shell: cli::completion::Shell },
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};
    use std::fs;
    use std::path::Path;

    use clap::CommandFactory as _;
    use clap::error::ErrorKind;

    use super::*;

    /// Flags that mean something else in each command that has them.
    const FLAGS_OF_COMMANDS: [&str; 17] = [
        "command", "cpu", "duration", "force", "host", "label", "list", "max-pairs", "max-time",
        "out", "period", "quiet", "round-time", "runtime", "seed", "subject", "ticks",
    ];

    /// Collects the help of each flag, by its name and the name of its value.
    ///
    /// A default, a repetition and a condition at the end are those of the command.
    fn collect_help(
        command: &clap::Command,
        help: &mut BTreeMap<(String, Vec<String>), BTreeSet<String>>,
    ) {
        for argument in command.get_arguments().filter(|argument| !argument.is_hide_set()) {
            let Some(flag) = argument.get_long() else { continue };
            let takes_values = argument.get_action().takes_values();
            let values = argument.get_value_names().filter(|_| takes_values).unwrap_or_default();
            let values = values.iter().map(ToString::to_string).collect();
            let text = argument.get_help().map(ToString::to_string).unwrap_or_default();
            let ends = ["; repeat for", " [default", " ("].map(|end| text.find(end));
            let end = ends.into_iter().flatten().min().unwrap_or(text.len());
            help.entry((flag.to_owned(), values)).or_default().insert(text[..end].to_owned());
        }
        command.get_subcommands().for_each(|command| collect_help(command, help));
    }

    #[test]
    fn equal_flags_have_equal_help() {
        let mut help = BTreeMap::new();
        collect_help(&Cli::command(), &mut help);
        help.retain(|_, texts| texts.len() > 1);
        let differing: BTreeSet<&str> = help.keys().map(|(flag, _)| flag.as_str()).collect();
        assert_eq!(differing, FLAGS_OF_COMMANDS.into(), "{help:#?}");
    }

    /// Parses the command of a line without its comment, pipe or redirection.
    fn parse_command(line: &str) -> Option<Vec<String>> {
        let line = line.trim().replace("cargo run --release -- ", "osjitter ");
        line.starts_with("osjitter ").then_some(())?;
        // In the examples of a help text, two spaces separate a command from its description.
        let line = line.split("  ").next()?;
        let words = shlex::split(line).unwrap_or_else(|| panic!("unclosed quote: {line}"));
        let is_end = |word: &String| matches!(word.as_str(), "|" | "||" | ">" | "<" | "&&" | "...");
        Some(words.into_iter().take_while(|word| !is_end(word)).collect())
    }

    /// Splits `text` into lines, and joins a line that ends in a backslash with the next.
    fn joined_lines(text: &str) -> Vec<String> {
        let parts: Vec<&str> = text.split("\\\n").map(|part| part.trim_matches(' ')).collect();
        parts.join(" ").lines().map(str::to_owned).collect()
    }

    /// Checks that a command parses. Only a complete one needs all required arguments: prose may
    /// mention a flag without them.
    fn check_parses(words: &[String], is_complete: bool, origin: &str) {
        if let Err(error) = Cli::try_parse_from(words) {
            let is_fine = match error.kind() {
                ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => true,
                ErrorKind::MissingRequiredArgument => !is_complete,
                _ => false,
            };
            assert!(is_fine, "{origin}: {}\n{error}", words.join(" "));
        }
    }

    fn pages() -> Vec<(String, String)> {
        let root = Path::new(env!("CARGO_MANIFEST_DIR"));
        let book = fs::read_dir(root.join("docs/src"))
            .expect("the book")
            .map(|entry| entry.expect("a page").path())
            .filter(|path| path.extension().is_some_and(|extension| extension == "md"));
        let pages = book.chain([root.join("README.md")]);
        pages
            .map(|page| (page.display().to_string(), fs::read_to_string(&page).expect("a page")))
            .collect()
    }

    #[test]
    fn documented_commands_parse() {
        let mut seen = 0;
        for (page, text) in pages() {
            let mut fenced = false;
            for line in joined_lines(&text) {
                fenced ^= line.starts_with("```");
                let inline: Vec<&str> =
                    if fenced { Vec::new() } else { line.split('`').skip(1).step_by(2).collect() };
                let complete = fenced.then_some(line.trim_start().trim_start_matches("- "));
                for words in inline.into_iter().chain(complete).filter_map(parse_command) {
                    // An ellipsis is a placeholder.
                    if !words.iter().any(|word| word.contains('…')) {
                        check_parses(&words, fenced, &page);
                        seen += 1;
                    }
                }
            }
        }
        assert!(seen > 50, "{seen} commands were found");
    }

    #[test]
    fn enumerated_values_can_be_completed() {
        const WITH_NAMES: [&str; 7] = ["subject", "a", "b", "runtime", "load", "sched", "metric"];
        fn check_values(command: &clap::Command, seen: &mut usize) {
            for arg in command.get_arguments() {
                let name = arg.get_long().unwrap_or_default();
                // `report --subject` selects an id of the file.
                let is_id = command.get_name() == "report";
                if WITH_NAMES.contains(&name) && !is_id {
                    let values = arg.get_possible_values();
                    assert!(!values.is_empty(), "{} --{name}", command.get_name());
                    *seen += 1;
                }
            }
            command.get_subcommands().for_each(|sub| check_values(sub, seen));
        }
        let mut seen = 0;
        check_values(&Cli::command(), &mut seen);
        assert!(seen > 15, "{seen} arguments were found");
    }

    #[test]
    fn help_examples_parse() {
        fn check_examples(command: &clap::Command, seen: &mut usize) {
            let after = command
                .get_after_long_help()
                .or(command.get_after_help())
                .map(ToString::to_string)
                .unwrap_or_default();
            for words in joined_lines(&after).iter().filter_map(|line| parse_command(line)) {
                check_parses(&words, true, command.get_name());
                *seen += 1;
            }
            for sub in command.get_subcommands() {
                check_examples(sub, seen);
            }
        }
        let mut seen = 0;
        check_examples(&Cli::command(), &mut seen);
        assert!(seen > 30, "{seen} examples were found");
    }
}
