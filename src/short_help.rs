//! The help of `-h`: the options of every day and a few examples. `--help` has all of them.

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
    let command = command.mut_args(|arg| {
        let is_shown = match (everyday, arg.get_long()) {
            (Some((_, flags)), Some(long)) => flags.split(' ').any(|flag| flag == long),
            _ => !arg.is_global_set(),
        };
        arg.hide_short_help(!is_shown)
    });
    let command = match command.get_after_help().map(ToString::to_string) {
        Some(long) => command.after_help(short_text(&long, path)).after_long_help(long),
        None => command,
    };
    command.mut_subcommands(|sub| {
        let path = format!("{path} {}", sub.get_name());
        shorten(sub, &path)
    })
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
            let flags = EVERYDAY.iter().filter(|(command, _)| *command == path);
            for flag in flags.flat_map(|(_, flags)| flags.split(' ')) {
                let mut longs = command.get_arguments().filter_map(clap::Arg::get_long);
                assert!(longs.any(|long| long == flag), "{path} --{flag}");
                seen += 1;
            }
        });
        assert_eq!(seen, EVERYDAY.iter().map(|(_, flags)| flags.split(' ').count()).sum::<usize>());
    }
}
