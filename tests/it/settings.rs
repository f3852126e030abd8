//! Tests of `osjitter.toml`: precedence of its values, rejected files, and `--print-config`.

use std::path::{Path, PathBuf};

use serde_json::Value;
use tempfile::TempDir;

use crate::osjitter::{Osjitter, Ran};
use crate::schema;

/// A directory with a file of settings, in which commands run.
struct Project(TempDir);

impl Project {
    fn new(settings: &str) -> Self {
        let project = Self(tempfile::tempdir().unwrap());
        std::fs::write(project.file(), settings).unwrap();
        // A umask may let the group write, and such a file is ignored.
        #[cfg(unix)]
        project.set_mode(0o644);
        project
    }

    fn file(&self) -> PathBuf {
        self.path().join("osjitter.toml")
    }

    #[cfg(unix)]
    fn set_mode(&self, mode: u32) {
        use std::os::unix::fs::PermissionsExt;
        std::fs::set_permissions(self.file(), PermissionsExt::from_mode(mode)).unwrap();
    }

    fn path(&self) -> &Path {
        self.0.path()
    }

    fn run(&self, line: &str) -> Ran {
        Osjitter::new(line.split(' ')).directory(self.path()).env("HOME", self.path()).run()
    }

    /// Returns a setting as `--print-config` lists it.
    fn listed(&self, line: &str, key: &str) -> Value {
        let shown = self.run(&format!("{line} --print-config --format json")).exits(0).stdout;
        schema::valid(&shown, "settings.1");
        let shown: Value = serde_json::from_str(&shown).unwrap();
        let found =
            shown["settings"].as_array().unwrap().iter().find(|setting| setting["key"] == key);
        found.unwrap_or_else(|| panic!("no {key} in {shown}")).clone()
    }

    #[track_caller]
    fn assert_setting(&self, line: &str, key: &str, values: &[&str], source: &str) -> Value {
        let setting = self.listed(line, key);
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
detect = "5%"

[gate.baseline.add]
floor = "3us"
"#;

#[test]
fn command_line_overrides_file() {
    let project = Project::new(SETTINGS);
    let ticks = project.assert_setting("run", "ticks", &["60"], "file");
    assert_eq!((&ticks["line"], &ticks["unused"]), (&4.into(), &Value::Null));
    let ticks = project.assert_setting("run --ticks 10k", "ticks", &["10k"], "command-line");
    assert_eq!((&ticks["line"], &ticks["unused"]), (&4.into(), &"set on the command line".into()));
    // The command line replaces a list.
    project.assert_setting("run", "period", &["1ms", "2ms"], "file");
    project.assert_setting("run --period 5ms", "period", &["5ms"], "command-line");
    project.assert_setting("run", "round-ticks", &[], "default");
    project.assert_setting("run", "histogram", &["true"], "file");
    project.assert_setting("run --histogram=false", "histogram", &["false"], "command-line");
    project.assert_setting("run --no-config", "ticks", &[], "default");
    project.assert_setting("run --no-config", "histogram", &["false"], "default");

    let plan = project.run("run --subject nanosleep --period 1ms --print-plan").exits(0);
    assert!(plan.stdout.contains("ticks = 60\n"), "{}", plan.stdout);
    assert!(!plan.stdout.contains("2ms"), "{}", plan.stdout);
    assert_eq!(
        plan.stderr,
        "using osjitter.toml: ticks, mlock, histogram (disable with --no-config)\n"
    );
    let plan = project.run("run --subject nanosleep --print-plan --no-config").exits(0);
    assert!(plan.stdout.contains("ticks = 10000\n"), "{} {}", plan.stdout, plan.stderr);
    assert!(plan.stderr.is_empty(), "{} {}", plan.stdout, plan.stderr);
}

#[test]
fn excluded_settings_are_ignored() {
    let project = Project::new(SETTINGS);
    let ticks = project.assert_setting("run --duration 3s", "ticks", &[], "default");
    assert_eq!(ticks["unused"], "excluded by --duration");
    let plan = project.run("run --duration 3s --period 1ms --subject spin --print-plan").exits(0);
    assert!(plan.stdout.contains("ticks = 3000\n"), "{}", plan.stdout);
    // A required flag can come from the command line, or be missing.
    assert_eq!(
        project.assert_setting("gate", "detect", &[], "default")["unused"],
        "needs --calibration"
    );
    assert_eq!(
        project.assert_setting("gate --calibration c.json", "detect", &["5%"], "file")["unused"],
        Value::Null
    );
    assert_eq!(
        project.assert_setting("gate --calibration c.json --duet", "detect", &[], "default")["unused"],
        "excluded by --duet"
    );
}

#[test]
fn screens_name_unjudged_limits() {
    let project = Project::new("[gate]\nlimit = [\"p99=1us\"]\n");
    let sides = "--base-cmd no-such-file --candidate-cmd no-such-file --quiet";
    let says = |flags: &str| project.run(&format!("gate {sides} {flags}")).exits(2).stderr;
    let unjudged = "gate: --screen does not judge --limit of the settings file";
    assert!(says("--screen").contains(unjudged), "{}", says("--screen"));
    assert!(!says("").contains(unjudged));
}

#[test]
fn unused_defaults_are_no_mistakes() {
    let settings = "[report]\nhistogram = true\nsort = \"cpu\"\nsamples = true\nhost = \"web-17\"\n\
                    reference = true\n\n[gate]\nruntime = \"multi-thread\"\n";
    let project = Project::new(settings);
    let report = |file: &str, flags: &str| {
        let directory = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures");
        project.run(&format!("report {directory}/{file} {flags}")).exits(0)
    };
    let keys = "histogram, sort, samples, host, reference";
    let used = format!("using osjitter.toml: {keys} (disable with --no-config)\n");
    for (file, format) in [
        ("report.json", "table"),
        ("report.json", "html"),
        ("verdict.json", "table"),
        ("timeout.json", "json"),
    ] {
        assert_eq!(report(file, &format!("--format {format}")).stderr, used, "{file} {format}");
    }
    let [default, flag] = ["--format csv", "--format csv --samples --no-config"]
        .map(|flags| report("report.json", flags).stdout);
    assert_eq!(default, flag, "the format has a use for it");
    // A command chooses its runtime.
    let gate = "gate --base-cmd no-such-file --candidate-cmd no-such-file";
    let missing = project.run(gate).exits(2);
    assert!(!missing.stderr.contains("--runtime"), "{}", missing.stderr);
    let refused = project.run(&format!("{gate} --runtime multi-thread")).exits(2);
    assert!(refused.stderr.contains("--runtime is for"), "{}", refused.stderr);
}

#[test]
fn required_flags_come_from_file() {
    // The flag that --detect requires is a setting: the gate fails only when it reads that file.
    let project = Project::new("[gate]\ncalibration = \"none.json\"\n");
    project.run("gate --a os-interval --b os-sleep --detect 5%").refuses("cannot read none.json");
    // A setting replaces a required flag: the search fails only because of its range.
    let project = Project::new("[find]\ngoal = \"p99=100us\"\n");
    let ran = project.run("find --from 3ms --to 2ms").exits(2);
    assert!(!ran.stderr.contains("required"), "{}", ran.stderr);
    project
        .run("find --from 3ms --to 2ms --no-config")
        .refuses("required arguments were not provided");
    // Two settings that require each other are used together, and neither without the other.
    let sides = "[gate]\nbase-cmd = \"./old\"\nmetric = \"wall\"\n";
    let alone = Project::new(sides);
    for key in ["base-cmd", "metric"] {
        let setting = alone.assert_setting("gate", key, &[], "default");
        assert_eq!(setting["unused"], "needs --candidate-cmd");
    }
    let both = Project::new(&format!("{sides}candidate-cmd = \"./new\"\n"));
    both.assert_setting("gate", "base-cmd", &["./old"], "file");
    both.assert_setting("gate", "metric", &["wall"], "file");
}

#[test]
fn switches_accept_values() {
    let project = Project::new("[gate]\nduet = true\n");
    project.assert_setting("gate --a os-interval --b os-sleep", "duet", &["true"], "file");
    // A switch that is turned off excludes nothing.
    let line = "gate --a os-interval --b os-sleep --duet=false --detect 5% --calibration c.json";
    project.assert_setting(line, "duet", &["false"], "command-line");
    project.assert_setting(
        "gate --duet=true --a os-interval --b os-sleep",
        "duet",
        &["true"],
        "command-line",
    );
    project.run("gate --duet=maybe").refuses("unexpected value 'maybe' for '--duet'");
    project.run("merge --duet=false a.json").refuses("unexpected argument '--duet'");
}

#[test]
fn plan_overrides_settings() {
    let project = Project::new(SETTINGS);
    std::fs::write(
        project.path().join("plan.toml"),
        "[defaults]\nticks = 70\nsubject = \"spin\"\n",
    )
    .unwrap();
    let plan = project.run("run --plan plan.toml --print-plan").exits(0);
    assert!(plan.stdout.contains("ticks = 70\n"), "{}", plan.stdout);
    assert!(plan.stdout.contains("500us"), "{}", plan.stdout);
    assert_eq!(
        project.assert_setting("run --plan plan.toml", "ticks", &[], "default")["unused"],
        "overridden by --plan"
    );
    project.assert_setting("run --plan plan.toml", "histogram", &["true"], "file");
    // The plan may be a setting itself.
    std::fs::write(project.file(), "[run]\nplan = \"plan.toml\"\nticks = 30\n").unwrap();
    let unused = &project.assert_setting("run", "ticks", &[], "default")["unused"];
    assert_eq!(unused, "overridden by --plan");
    assert!(project.run("run --print-plan").exits(0).stdout.contains("ticks = 70\n"));
}

#[test]
fn files_cannot_set_quiet() {
    let project = Project::new("[run]\nquiet = true\n");
    project.run("run --print-plan").refuses("quiet");
}

#[test]
fn subcommands_inherit_settings() {
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
    project.assert_setting("gate", "floor", &["2us"], "file");

    let project = Project::new("[gate]\nsubject = \"nothing\"\n");
    project.assert_setting("gate --baseline x.json", "subject", &["nothing"], "file");
    let ran = project.run("gate baseline add x.json").exits(2);
    let expected = "error: osjitter.toml:2: subject: unknown subject \"nothing\"";
    assert!(ran.stderr.starts_with(expected), "{}", ran.stderr);
}

#[test]
fn file_is_found_in_parent_directories() {
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
    assert_eq!(missing.stderr, "error: --config: none.toml does not exist\n");
    ran(elsewhere.path(), &["--config", "none.toml", "--no-config"])
        .refuses("cannot be used with '--no-config'");
}

#[test]
fn errors_name_their_line() {
    for (settings, expected) in [
        (
            "[run]\n\ntick = 5\n",
            "osjitter.toml:3: unknown key tick in [run]; did you mean ticks? `osjitter run --help` lists",
        ),
        (
            "[run]\nround_ticks = 5\n",
            "osjitter.toml:2: unknown key round_ticks in [run]; did you mean round-ticks? ",
        ),
        (
            "[run]\ncolour = 5\n",
            "osjitter.toml:2: unknown key colour in [run]; `osjitter run --help` lists",
        ),
        ("[gate.baseline.add]\nreplace = true\n", "osjitter.toml:2: invalid key replace in "),
        (
            "[merge]\nforce = true\n",
            "osjitter.toml:2: invalid key force in [merge]: --force is given on the command line only",
        ),
        ("[history]\nforce = true\n", "osjitter.toml:2: unknown key force in [history]; "),
        ("[rnu]\nticks = 5\n", "osjitter.toml:1: unknown section [rnu]; did you mean run? "),
        ("[bench]\nticks = 5\n", "osjitter.toml:2: unknown key ticks in [bench]; "),
        ("[bench.clok]\n", "osjitter.toml:1: unknown section [bench.clok]; did you mean clock? "),
        ("[stress]\n", "osjitter.toml:1: unknown section [stress]; "),
        (
            "ticks = 5\n",
            "osjitter.toml:1: ticks is outside any section; put it below [run], [gate] or another command",
        ),
        ("run = 5\n", "osjitter.toml:1: run is outside any section; "),
        (
            "[run]\nticks = \"many\"\n",
            "osjitter.toml:2: ticks: \"many\" is not a whole number of at least 1",
        ),
        ("[run]\nticks = 0\n", "osjitter.toml:2: ticks: invalid count 0: expected at least 1"),
        ("[run]\nticks = true\n", "osjitter.toml:2: ticks: expected a value, not true"),
        ("[run]\nticks = [1, 2]\n", "osjitter.toml:2: ticks: expected one value, not a list"),
        ("[run]\nperiod = []\n", "osjitter.toml:2: period: expected at least one value; "),
        ("[run]\nperiod = 500\n", "osjitter.toml:2: period: \"500\" has no unit; "),
        (
            "[run]\nsubject = \"os-intervall\"\n",
            "osjitter.toml:2: subject: unknown subject \"os-intervall\"; did you mean os-interval",
        ),
        ("[run]\nmlock = \"yes\"\n", "osjitter.toml:2: mlock: expected true or false"),
        (
            "[run]\nformat = \"tabel\"\n",
            "osjitter.toml:2: format: unknown value \"tabel\": expected table, json",
        ),
        (
            "[run]\nout = \"\"\n",
            "osjitter.toml:2: out: invalid value \"\": expected at least one character",
        ),
        ("[run]\nticks = 1979-05-27\n", "osjitter.toml:2: ticks: expected a text or a number"),
        (
            "[run]\nticks = 5\n\nduration = \"1s\"\n",
            "osjitter.toml:4: duration and ticks (line 2) exclude each other; give one",
        ),
        ("[run]\nconfig = \"x\"\n", "osjitter.toml:2: invalid key config in [run]: "),
        ("[run\n", "osjitter.toml:1: "),
        ("[run]\nticks = 5\nticks = 6\n", "osjitter.toml:3: "),
        // Sections of other commands are checked as well.
        ("[gate]\nfloor = \"5\"\n", "osjitter.toml:2: floor: \"5\" has no unit; "),
    ] {
        let ran = Project::new(settings).run("run --print-plan").exits(2);
        assert!(
            ran.stderr.starts_with(&format!("error: {expected}")),
            "{settings}\n{}",
            ran.stderr
        );
        assert_eq!((ran.stderr.lines().count(), ran.stdout.as_str()), (1, ""), "{}", ran.stderr);
    }
    // Errors of the command line come first, and help does not read the file.
    let project = Project::new("[rnu]\n");
    project.run("run --nothing").refuses("unexpected argument '--nothing'");
    project.run("run --help").exits(0);
    project.run("list --no-config").exits(0);
}

#[test]
fn oversized_file_is_rejected() {
    const MAX_FILE_BYTES: usize = 64 << 10;
    let settings_of_size = |bytes: usize| {
        let settings = "[run]\nticks = 60\n# ";
        format!("{settings}{}", "x".repeat(bytes - settings.len()))
    };
    Project::new(&settings_of_size(MAX_FILE_BYTES)).assert_setting("run", "ticks", &["60"], "file");
    let ran = Project::new(&settings_of_size(MAX_FILE_BYTES + 1)).run("run --print-plan").exits(2);
    let is_larger = "is larger than 64 KiB, the size of the largest file of settings";
    assert_eq!(ran.stderr, format!("error: osjitter.toml: {is_larger}\n"));
    assert!(ran.stdout.is_empty());
    let project = Project::new("");
    #[cfg(unix)]
    assert_eq!(
        project.run("run --config /dev/zero").exits(2).stderr,
        format!("error: /dev/zero: {is_larger}\n")
    );
    // A sparse file of a terabyte is rejected without reading it.
    std::fs::OpenOptions::new()
        .write(true)
        .open(project.path().join("osjitter.toml"))
        .unwrap()
        .set_len(1 << 40)
        .unwrap();
    project.run("run --print-plan").refuses("/osjitter.toml: is 1048576 MiB large, and at most ");
}

#[test]
fn printed_settings_are_a_valid_file() {
    let project = Project::new(SETTINGS);
    project.run("run --ticks 5k --duration=1s --print-config").refuses("cannot be used with");
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
            .map(|(setting, source)| (setting.trim_end().to_owned(), source.to_owned()))
            .unwrap()
    };
    let line_parts = |setting: &str, source: &str| (setting.to_owned(), source.to_owned());
    assert_eq!(line("period"), line_parts("period = [\"1ms\", \"2ms\"]", "osjitter.toml:3"));
    let source = "command line; osjitter.toml:4 is not used: set on the command line";
    assert_eq!(line("ticks"), line_parts("ticks = \"5k\"", source));
    assert_eq!(line("warmup"), line_parts("# warmup", "default: 10ms, but 3 to 20 ticks"));
    assert_eq!(line("format"), line_parts("format = \"table\"", "default"));
    let again = Project::new(&printed).run("run --print-config").exits(0).stdout;
    let values = |text: &str| -> Vec<String> {
        let lines = text.lines().filter(|line| !line.starts_with('#'));
        lines.map(|line| line.split("  # ").next().unwrap().trim_end().to_owned()).collect()
    };
    assert_eq!(values(&again), values(&printed));
    // A command can be listed without its required arguments.
    assert!(
        project
            .run("merge --print-config")
            .exits(0)
            .stdout
            .starts_with("# osjitter merge, with osjitter.toml\n[merge]\n")
    );
}

#[test]
fn documented_file_is_valid() {
    let book =
        std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/src/settings.md"))
            .unwrap();
    let file =
        book.split("```toml\n").nth(1).and_then(|rest| rest.split("```").next()).expect("a file");
    let project = Project::new(file);
    project.assert_setting("run", "load", &["none", "cpu:2"], "file");
    project.assert_setting("gate", "tolerance", &["p50=10%", "p99=40%"], "file");
    project.assert_setting("bench timeout", "rounds", &["60"], "file");
}

#[cfg(unix)]
#[test]
fn file_of_others_is_ignored() {
    use std::os::unix::fs::{MetadataExt, chown};

    const DEFAULT: &str = "ticks = 10000\n";
    const SETTING: &str = "ticks = 60\n";
    let project = Project::new(SETTINGS);
    let printed = |args: &[&str], variables: &[(&str, &str)]| {
        let command = Osjitter::new(["run", "--subject", "spin", "--print-plan", "--quiet"]);
        let command = command.args(args).directory(project.path()).env("HOME", project.path());
        let command =
            variables.iter().fold(command, |command, (name, value)| command.env(name, value));
        let ran = command.run().exits(0);
        let plan = if ran.stdout.contains(SETTING) { SETTING } else { DEFAULT };
        assert!(ran.stdout.contains(plan), "{}", ran.stdout);
        (plan, ran.stderr)
    };
    let used = (SETTING, String::new());
    assert_eq!(printed(&[], &[]), used);

    project.set_mode(0o666);
    let writable = "warning: ignoring osjitter.toml: other users can write to it \
                    (chmod go-w osjitter.toml prevents that); \
                    --config osjitter.toml uses it anyway\n";
    assert_eq!(printed(&[], &[]), (DEFAULT, writable.to_owned()));
    // A named file is used.
    assert_eq!(printed(&["--config", "osjitter.toml"], &[]), used);
    assert_eq!(printed(&[], &[("OSJITTER_CONFIG", "osjitter.toml")]), used);
    assert_eq!(printed(&["--no-config"], &[]), (DEFAULT, String::new()));

    project.set_mode(0o644);
    if project.file().metadata().unwrap().uid() != 0 {
        return;
    }
    // The rest needs root.
    chown(project.file(), Some(12_345), None).unwrap();
    let foreign = "warning: ignoring osjitter.toml: user 12345 owns it; \
                   --config osjitter.toml uses it anyway\n";
    assert_eq!(printed(&[], &[]), (DEFAULT, foreign.to_owned()));
    assert_eq!(printed(&["--config", "osjitter.toml"], &[]), used);
    // The user who called sudo owns it.
    assert_eq!(printed(&[], &[("SUDO_UID", "12345")]), used);
    assert_eq!(printed(&[], &[("SUDO_UID", "12346")]), (DEFAULT, foreign.to_owned()));
}

#[test]
fn json_stands_for_the_format() {
    let project = Project::new("");
    let [short, long] =
        ["list --json", "list --format json"].map(|line| project.run(line).exits(0));
    assert_eq!(short.stdout, long.stdout);
    project
        .run("list --json --format table")
        .refuses("'--format <FORMAT>' cannot be used multiple times");
    project.run("merge --json a.json").refuses("unexpected argument '--json'");
}
