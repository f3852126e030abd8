//! `osjitter.toml`: whose value holds, what is refused, and what `--print-config` says of it.

use std::path::Path;

use serde_json::Value;
use tempfile::TempDir;

use crate::osjitter::{Osjitter, Ran};
use crate::schema;

/// A directory with a file of settings, where commands run.
struct Project(TempDir);

impl Project {
    fn new(settings: &str) -> Self {
        let project = Self(tempfile::tempdir().unwrap());
        std::fs::write(project.path().join("osjitter.toml"), settings).unwrap();
        project
    }

    fn path(&self) -> &Path {
        self.0.path()
    }

    fn run(&self, line: &str) -> Ran {
        Osjitter::new(line.split(' ')).directory(self.path()).env("HOME", self.path()).run()
    }

    /// A setting as `--print-config` shows it.
    fn shown(&self, line: &str, key: &str) -> Value {
        let shown = self.run(&format!("{line} --print-config --format json")).exits(0).stdout;
        schema::valid(&shown, "settings.1");
        let shown: Value = serde_json::from_str(&shown).unwrap();
        let found =
            shown["settings"].as_array().unwrap().iter().find(|setting| setting["key"] == key);
        found.unwrap_or_else(|| panic!("no {key} in {shown}")).clone()
    }

    #[track_caller]
    fn is(&self, line: &str, key: &str, values: &[&str], source: &str) -> Value {
        let setting = self.shown(line, key);
        assert_eq!(
            (&setting["values"], &setting["source"]),
            (&values.into(), &source.into()),
            "{setting}"
        );
        setting
    }
}

const SETTINGS: &str = r#"
[run]
period = ["1ms", "2ms"]
ticks = 60
mlock = false
histogram = true

[gate]
period = "1ms"
floor = "2us"
see = "5%"

[gate.baseline.add]
floor = "3us"
"#;

#[test]
fn the_command_line_beats_the_file_and_the_file_beats_the_default() {
    let project = Project::new(SETTINGS);
    let ticks = project.is("run", "ticks", &["60"], "file");
    assert_eq!((&ticks["line"], &ticks["unused"]), (&4.into(), &Value::Null));
    let ticks = project.is("run --ticks 10k", "ticks", &["10k"], "command-line");
    assert_eq!((&ticks["line"], &ticks["unused"]), (&4.into(), &"the command line has it".into()));
    // A list is replaced, not made longer.
    project.is("run", "period", &["1ms", "2ms"], "file");
    project.is("run --period 5ms", "period", &["5ms"], "command-line");
    project.is("run", "round-ticks", &[], "default");
    project.is("run", "histogram", &["true"], "file");
    project.is("run --histogram=false", "histogram", &["false"], "command-line");
    project.is("run --no-config", "ticks", &[], "default");
    project.is("run --no-config", "histogram", &["false"], "default");

    let plan = project.run("run --subject nanosleep --period 1ms --print-plan").exits(0);
    assert!(
        plan.stdout.contains("ticks = 60\n") && !plan.stdout.contains("2ms"),
        "{}",
        plan.stdout
    );
    assert_eq!(
        plan.stderr,
        "settings: osjitter.toml (ticks, mlock, histogram); --no-config leaves it out\n"
    );
    let plan = project.run("run --subject nanosleep --print-plan --no-config").exits(0);
    assert!(
        plan.stdout.contains("ticks = 10000\n") && plan.stderr.is_empty(),
        "{} {}",
        plan.stdout,
        plan.stderr
    );
}

#[test]
fn what_the_command_line_excludes_is_not_used() {
    let project = Project::new(SETTINGS);
    let ticks = project.is("run --duration 3s", "ticks", &[], "default");
    assert_eq!(ticks["unused"], "excluded by --duration");
    let plan = project.run("run --duration 3s --period 1ms --subject spin --print-plan").exits(0);
    assert!(plan.stdout.contains("ticks = 3000\n"), "{}", plan.stdout);
    // What a setting needs may stand on the command line, or nowhere.
    assert_eq!(project.is("gate", "see", &[], "default")["unused"], "needs --calibration");
    assert_eq!(
        project.is("gate --calibration c.json", "see", &["5%"], "file")["unused"],
        Value::Null
    );
    assert_eq!(
        project.is("gate --calibration c.json --duet", "see", &[], "default")["unused"],
        "excluded by --duet"
    );
}

#[test]
fn a_plan_says_itself_what_it_measures() {
    let project = Project::new(SETTINGS);
    std::fs::write(
        project.path().join("plan.toml"),
        "[defaults]\nticks = 70\nsubject = \"spin\"\n",
    )
    .unwrap();
    let plan = project.run("run --plan plan.toml --print-plan").exits(0);
    assert!(
        plan.stdout.contains("ticks = 70\n") && plan.stdout.contains("500us"),
        "{}",
        plan.stdout
    );
    assert_eq!(
        project.is("run --plan plan.toml", "ticks", &[], "default")["unused"],
        "--plan says it"
    );
    project.is("run --plan plan.toml", "histogram", &["true"], "file");
}

#[test]
fn a_command_within_another_takes_what_it_has_too() {
    let project = Project::new(SETTINGS);
    let shown = project.run("gate baseline add x.json --print-config").exits(0).stdout;
    let has = |line: &str, at: &str| {
        let found = shown
            .lines()
            .find(|l| l.starts_with(line))
            .unwrap_or_else(|| panic!("no {line} in {shown}"));
        assert!(found.ends_with(at), "{found}");
    };
    assert!(shown.contains("\n[gate.baseline.add]\n"), "{shown}");
    has("period = \"1ms\"", "# osjitter.toml:9");
    has("floor = \"3us\"", "# osjitter.toml:14");
    project.is("gate", "floor", &["2us"], "file");
}

#[test]
fn a_file_is_found_above_up_to_the_repository_and_paths_start_where_it_is() {
    let project = Project::new("[run]\nout = \"runs/a\"\nticks = 61\n");
    let inner = project.path().join("a/b");
    std::fs::create_dir_all(&inner).unwrap();
    let ran = |home: &Path, extra: &[&str]| {
        let args = ["run", "--subject", "spin", "--print-plan"];
        Osjitter::new(args).args(extra).directory(&inner).env("HOME", home).run()
    };
    assert!(ran(project.path(), &[]).exits(0).stdout.contains("ticks = 61\n"));
    let elsewhere = tempfile::tempdir().unwrap();
    assert!(
        ran(elsewhere.path(), &[]).exits(0).stdout.contains("ticks = 10000\n"),
        "nothing ends the search"
    );
    std::fs::create_dir(project.path().join(".git")).unwrap();
    assert!(ran(elsewhere.path(), &[]).exits(0).stdout.contains("ticks = 61\n"));
    let file = project.path().join("osjitter.toml");
    assert!(
        ran(elsewhere.path(), &["--config", file.to_str().unwrap()])
            .exits(0)
            .stdout
            .contains("ticks = 61\n")
    );
    let named = Osjitter::new(["run", "--print-config"])
        .directory(elsewhere.path())
        .env("OSJITTER_CONFIG", &file);
    let named = named.run().exits(0).stdout;
    let out = project.path().canonicalize().unwrap().join("runs/a");
    assert!(
        named.contains(&format!("out = \"{}\"", project.path().join("runs/a").display())),
        "{named} {out:?}"
    );

    let missing = ran(elsewhere.path(), &["--config", "none.toml"]).exits(2);
    assert_eq!(missing.stderr, "error: --config: there is no none.toml\n");
    let both = ran(elsewhere.path(), &["--config", "none.toml", "--no-config"]).exits(2);
    assert!(both.stderr.contains("cannot be used with '--no-config'"), "{}", both.stderr);
}

#[test]
fn what_is_wrong_is_named_with_its_line() {
    for (settings, says) in [
        (
            "[run]\n\ntick = 5\n",
            "osjitter.toml:3: [run] has no key tick; did you mean ticks? `osjitter run --help` lists",
        ),
        (
            "[run]\nround_ticks = 5\n",
            "osjitter.toml:2: [run] has no key round_ticks; did you mean round-ticks? ",
        ),
        (
            "[run]\ncolour = 5\n",
            "osjitter.toml:2: [run] has no key colour; `osjitter run --help` lists",
        ),
        (
            "[rnu]\nticks = 5\n",
            "osjitter.toml:1: there is no command for [rnu]; did you mean run? ",
        ),
        ("[bench]\nticks = 5\n", "osjitter.toml:2: [bench] has no key ticks; "),
        (
            "[bench.clok]\n",
            "osjitter.toml:1: there is no command for [bench.clok]; did you mean clock? ",
        ),
        ("[stress]\n", "osjitter.toml:1: there is no command for [stress]; "),
        (
            "ticks = 5\n",
            "osjitter.toml:1: ticks is in no section; put it below [run], [gate] or another command",
        ),
        ("run = 5\n", "osjitter.toml:1: run is in no section; "),
        (
            "[run]\nticks = \"many\"\n",
            "osjitter.toml:2: ticks: \"many\" is not a whole number of at least 1",
        ),
        ("[run]\nticks = 0\n", "osjitter.toml:2: ticks: invalid count 0: expected "),
        ("[run]\nticks = true\n", "osjitter.toml:2: ticks: takes a value, not true"),
        ("[run]\nticks = [1, 2]\n", "osjitter.toml:2: ticks: takes one value, not a list"),
        ("[run]\nperiod = []\n", "osjitter.toml:2: period: an empty list says nothing; "),
        ("[run]\nperiod = 500\n", "osjitter.toml:2: period: \"500\" has no unit; "),
        (
            "[run]\nsubject = \"os-intervall\"\n",
            "osjitter.toml:2: subject: unknown subject \"os-intervall\"; did you mean os-interval",
        ),
        ("[run]\nmlock = \"yes\"\n", "osjitter.toml:2: mlock: is true or false"),
        (
            "[run]\nformat = \"tabel\"\n",
            "osjitter.toml:2: format: \"tabel\" is none of table, json",
        ),
        ("[run]\nticks = 1979-05-27\n", "osjitter.toml:2: ticks: takes a text or a number"),
        (
            "[run]\nticks = 5\n\nduration = \"1s\"\n",
            "osjitter.toml:4: duration and ticks (line 2) exclude each other; give one",
        ),
        ("[run]\nconfig = \"x\"\n", "osjitter.toml:2: [run] has no key config; "),
        ("[run\n", "osjitter.toml:1: "),
        ("[run]\nticks = 5\nticks = 6\n", "osjitter.toml:3: "),
        // A mistake that is not of this command is found as well.
        ("[gate]\nfloor = \"5\"\n", "osjitter.toml:2: floor: \"5\" has no unit; "),
    ] {
        let ran = Project::new(settings).run("run --print-plan").exits(2);
        assert!(ran.stderr.starts_with(&format!("error: {says}")), "{settings}\n{}", ran.stderr);
        assert_eq!((ran.stderr.lines().count(), ran.stdout.as_str()), (1, ""), "{}", ran.stderr);
    }
    // What is wrong with the command line is said first, and help needs no file.
    let project = Project::new("[rnu]\n");
    assert!(
        project.run("run --nothing").exits(2).stderr.contains("unexpected argument '--nothing'")
    );
    project.run("run --help").exits(0);
    project.run("list --no-config").exits(0);
}

#[test]
fn a_file_is_no_larger_than_settings() {
    const MAX_FILE_BYTES: usize = 64 << 10;
    let of = |bytes: usize| {
        let settings = "[run]\nticks = 60\n# ";
        format!("{settings}{}", "x".repeat(bytes - settings.len()))
    };
    Project::new(&of(MAX_FILE_BYTES)).is("run", "ticks", &["60"], "file");
    let ran = Project::new(&of(MAX_FILE_BYTES + 1)).run("run --print-plan").exits(2);
    assert_eq!(ran.stderr, "error: osjitter.toml: 65 KiB; settings have at most 64 KiB\n");
    assert!(ran.stdout.is_empty());
    // One without end on the disk is not even read.
    let project = Project::new("");
    std::fs::OpenOptions::new()
        .write(true)
        .open(project.path().join("osjitter.toml"))
        .unwrap()
        .set_len(1 << 40)
        .unwrap();
    let ran = project.run("run --print-plan").exits(2);
    assert!(
        ran.stderr.contains("/osjitter.toml: is 1048576 MiB large, and at most "),
        "{}",
        ran.stderr
    );
}

#[test]
fn what_is_printed_is_a_file_of_the_same_settings() {
    let project = Project::new(SETTINGS);
    let printed = project.run("run --ticks 5k --duration=1s --print-config").exits(2);
    assert!(printed.stderr.contains("cannot be used with"), "{}", printed.stderr);
    let printed = project
        .run("run --ticks 5k --subject spin --subject nanosleep --print-config")
        .exits(0)
        .stdout;
    let line = |key: &str| {
        let is = |line: &&str| {
            line.trim_start_matches("# ").split(' ').next() == Some(key) && line.contains("  # ")
        };
        let line = printed.lines().find(is).unwrap_or_else(|| panic!("no {key} in {printed}"));
        line.split_once("  # ")
            .map(|(left, source)| (left.trim_end().to_owned(), source.to_owned()))
            .unwrap()
    };
    let own = |left: &str, source: &str| (left.to_owned(), source.to_owned());
    assert_eq!(line("period"), own("period = [\"1ms\", \"2ms\"]", "osjitter.toml:3"));
    let source = "command line; osjitter.toml:4 is not used: the command line has it";
    assert_eq!(line("ticks"), own("ticks = \"5k\"", source));
    assert_eq!(line("warmup"), own("# warmup", "default: 10ms, but 3 to 20 ticks"));
    assert_eq!(line("format"), own("format = \"table\"", "default"));
    let again = Project::new(&printed).run("run --print-config").exits(0).stdout;
    let values = |text: &str| -> Vec<String> {
        let lines = text.lines().filter(|line| !line.starts_with('#'));
        lines.map(|line| line.split("  # ").next().unwrap().trim_end().to_owned()).collect()
    };
    assert_eq!(values(&again), values(&printed));
    // Also for a command that lacks what it needs.
    assert!(
        project
            .run("merge --print-config")
            .exits(0)
            .stdout
            .starts_with("# osjitter merge, with osjitter.toml\n[merge]\n")
    );
}

#[test]
fn the_file_of_the_book_is_read() {
    let book =
        std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/src/settings.md"))
            .unwrap();
    let file =
        book.split("```toml\n").nth(1).and_then(|rest| rest.split("```").next()).expect("a file");
    let project = Project::new(file);
    project.is("run", "load", &["none", "cpu:2"], "file");
    project.is("gate", "max", &["p99=200us", "missed=0.1%"], "file");
    project.is("bench timeout", "rounds", &["60"], "file");
}
