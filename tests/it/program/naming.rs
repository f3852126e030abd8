//! Tests of the names of programs, and of the places at which they are given.

use std::path::Path;

use super::{CORRECT_PROGRAM, Home, report, run, texts};
use crate::osjitter::Osjitter;
use crate::test_programs::write_executable;

#[test]
fn equally_named_programs_are_distinguished() {
    let home = Home::new();
    let command = home.script(CORRECT_PROGRAM);
    let spin = home.path("spin");
    write_executable(&spin, std::fs::read("/bin/sh").unwrap());
    let spin = format!("'{}' '{}'", spin.display(), home.path("program").display());
    let other = format!("{command} x");
    let others = ["--command", &other, "--command", &spin, "--command", &command];
    let ran = run(&command, &others).run().exits(0);
    let report = report(&ran);
    let expected = ["program@1ms", "program-x@1ms", "spin-command@1ms", "nanosleep@1ms"];
    assert_eq!(texts(&report, "id"), expected);
    assert!(ran.stdout.contains("program-x is sh "), "{}", ran.stdout);
    assert_eq!(report["subjects"][0]["summary"]["lateness_ns"]["p50"], 20_000);
}

#[test]
fn programs_can_be_named() {
    let home = Home::new();
    let command = home.script(CORRECT_PROGRAM);
    let other = format!("{command} x");
    let args = ["--command", &other, "--name", "mine", "--meter", "control"];
    let ran = run(&command, &args).run().exits(0);
    let ids = ["mine@1ms", "program-x@1ms", "nanosleep@1ms"];
    assert_eq!(texts(&report(&ran), "id"), ids);
    assert!(ran.stdout.contains("mine is sh "), "{}", ran.stdout);
    // The names and the meter are part of the plan, in both of its forms.
    let print = |plan: &Path, more: &[&str]| {
        let args = [Path::new("run"), Path::new("--print-plan"), Path::new("--plan"), plan];
        Osjitter::new(args).args(more).run().exits(0).stdout
    };
    let stored = ran.path("report.json");
    let plan = print(&stored, &[]);
    for line in ["name = \"mine\"", "name = \"program-x\"", "meter = \"control\""] {
        assert!(plan.contains(line), "{line}: {plan}");
    }
    std::fs::write(home.path("plan.toml"), &plan).unwrap();
    assert_eq!(print(&home.path("plan.toml"), &[]), plan);
    let changed = print(&stored, &["--meter", "other"]);
    assert_eq!(changed, plan.replace("meter = \"control\"", "meter = \"other\""));
    for (args, expected) in [
        (&["--name", "a b"][..], "invalid name \"a b\""),
        (&["--name", "a", "--name", "b"], "2 values of --name"),
    ] {
        run(&command, args).run().refuses(expected);
    }
    Osjitter::new(["run", "--subject", "spin", "--meter", "x"]).out("").run().refuses("--meter");
}

#[test]
fn plan_file_contains_commands() {
    let home = Home::new();
    home.script(CORRECT_PROGRAM);
    let file = home.path("program").display().to_string();
    let text = format!(
        "[defaults]\nsubject = \"spin\"\nperiod = \"1ms\"\nticks = 20\nround-ticks = 10\n\
         [[scenario]]\ncommand = [\"sh\", {file:?}]\n\
         [[scenario]]\n\
         [[scenario]]\nsubject = \"nanosleep\"\ncommand = [\"sh\", {file:?}, \"x\"]\n"
    );
    std::fs::write(home.path("plan.toml"), text).unwrap();
    let ran =
        Osjitter::new(["run", "--plan"]).args([home.path("plan.toml")]).out("").run().exits(0);
    let ids = ["program@1ms", "spin@1ms", "program-x@1ms", "nanosleep@1ms"];
    assert_eq!(texts(&report(&ran), "id"), ids);
}

#[test]
fn misplaced_programs_get_a_tip() {
    let sides = "tip: programs are given as '--base-cmd OLD --candidate-cmd NEW'";
    for (args, tip) in [
        ("gate ./x", sides),
        ("gate -- ./x --y", sides),
        ("gate --cmd ./x", sides),
        ("gate --metric wall -- ./x", sides),
        ("run ./x", "tip: programs are given as '-- PROGRAM'"),
        ("trace --program ./x", "tip: programs are given as '-- PROGRAM'"),
    ] {
        Osjitter::new(args.split(' ')).run().refuses(tip);
    }
    for args in ["gate baselin", "gate --nonsense", "list ./x", "gate --a spin --b spin baseline"] {
        let stderr = Osjitter::new(args.split(' ')).run().exits(2).stderr;
        assert!(!stderr.contains("programs are given"), "{args}: {stderr}");
    }
}
