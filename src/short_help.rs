//! The help of `-h`: the options of every day and a few examples. `--help` has all of them, except
//! those that a project sets once or never, which it lists in one line.

use clap::Command;

/// The options that `-h` shows. A command without an entry has few, and shows all of its own.
const EVERYDAY: [(&str, &str); 10] = [
    ("run", "period ticks subject load why out format histogram quiet"),
    ("find", "goal period subject load max-time out quiet"),
    ("gate", "a b base-cmd candidate-cmd bench base metric limit out quiet"),
    ("gate baseline add", "subject replace period cpu quiet"),
    ("calibrate", "subject command metric period max-time out quiet"),
    ("report", "format histogram sort percentiles columns subject out"),
    ("doctor", "cpu prove try undo load import out quiet"),
    ("monitor", "duration subject period log listen limit flight quiet"),
    ("bench timeout", "variant clock workload length rounds list out"),
    ("trace", "pid thread duration out format quiet"),
];
/// Flags without a description in `--help`: their place is `osjitter.toml` or a plan. They go on
/// working.
const RARE: [(&str, &str); 5] = [
    ("run", "round-ticks warmup seed max-start-time percentiles columns"),
    ("gate", "round-ticks warmup seed max-round-time warmup-runs min-run-time"),
    ("gate baseline add", "round-ticks warmup seed"),
    ("calibrate", "round-ticks warmup seed max-round-time warmup-runs min-run-time"),
    ("find", "seed"),
];
/// The examples that `-h` shows.
const EXAMPLES: usize = 3;

/// Gives a command, and each command below it, a short help.
pub fn add(command: Command) -> Command {
    shorten(command, "osjitter")
}

/// `path` is the command as it is typed.
fn shorten(command: Command, path: &str) -> Command {
    let words = path.strip_prefix("osjitter ").unwrap_or_default();
    let everyday = EVERYDAY.iter().find(|(command, _)| *command == words);
    let rare_flags = find_flags(&RARE, words);
    let rare: Vec<String> = command
        .get_arguments()
        .filter_map(clap::Arg::get_long)
        .filter(|long| rare_flags.split(' ').any(|flag| flag == *long))
        .map(|long| format!("--{long}"))
        .collect();
    let command = command.mut_args(|arg| {
        let is_rare = arg.get_long().is_some_and(|long| rare_flags.split(' ').any(|f| f == long));
        let arg = if is_rare { arg.hide_long_help(true) } else { arg };
        let is_shown = match (everyday, arg.get_long()) {
            (Some((_, flags)), Some(long)) => flags.split(' ').any(|flag| flag == long),
            _ => !arg.is_global_set(),
        };
        arg.hide_short_help(!is_shown)
    });
    let command = match command.get_after_help().map(ToString::to_string) {
        Some(long) => {
            let short = short_text(&long, path);
            command.after_help(short).after_long_help(long + &describe_rare(&rare))
        }
        None => command,
    };
    command.mut_subcommands(|sub| {
        let path = format!("{path} {}", sub.get_name());
        shorten(sub, &path)
    })
}

/// Returns the flags of a command in a list, or an empty text.
fn find_flags(flags: &[(&'static str, &'static str)], command: &str) -> &'static str {
    flags.iter().find(|(name, _)| *name == command).map_or("", |(_, flags)| flags)
}

/// Names flags that have no description.
fn describe_rare(flags: &[String]) -> String {
    if flags.is_empty() {
        return String::new();
    }
    format!(
        "\n\nRarely changed, as keys of osjitter.toml (see the page on settings) or as flags: {}.",
        flags.join(", ")
    )
}

/// Returns the first examples of a text, and where the rest is.
fn short_text(long: &str, path: &str) -> String {
    let lines = long.lines().take_while(|line| !line.is_empty()).take(1 + EXAMPLES);
    let examples: Vec<&str> = lines.collect();
    format!("{}\n\nAll options and rules: {path} --help", examples.join("\n"))
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;
    use crate::commands::Cli;

    /// Calls `check` for a command and those below it, with their paths.
    fn visit(command: &Command, path: &str, check: &mut impl FnMut(&Command, &str)) {
        check(command, path);
        for sub in command.get_subcommands().filter(|sub| !sub.is_hide_set()) {
            visit(sub, format!("{path} {}", sub.get_name()).trim(), check);
        }
    }

    #[test]
    fn short_help_has_forty_lines() {
        let mut long = Vec::new();
        visit(&add(Cli::command()), "", &mut |command, path| {
            for width in [80, 100] {
                let help = command.clone().term_width(width).render_help().to_string();
                if help.lines().count() > 40 {
                    long.push(format!("{path} at {width} columns:\n{help}"));
                }
            }
        });
        assert!(long.is_empty(), "{}", long.join("\n"));
    }

    #[test]
    fn everyday_options_exist() {
        let mut seen = 0;
        visit(&Cli::command(), "", &mut |command, path| {
            let flags = EVERYDAY.iter().chain(&RARE).filter(|(command, _)| *command == path);
            for flag in flags.flat_map(|(_, flags)| flags.split(' ')) {
                let mut longs = command.get_arguments().filter_map(clap::Arg::get_long);
                assert!(longs.any(|long| long == flag), "{path} --{flag}");
                seen += 1;
            }
        });
        let listed = EVERYDAY.iter().chain(&RARE);
        assert_eq!(seen, listed.map(|(_, flags)| flags.split(' ').count()).sum::<usize>());
    }
}
