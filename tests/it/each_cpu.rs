//! Tests of `osjitter run --each`: a row per CPU, the named CPU, and refused arguments.
#![cfg(target_os = "linux")]

use engine::machine::os;
use files::file::File as _;
use files::report::{CpuFinding, Report, Status};
use serde_json::{Value, json};

use crate::osjitter::{Osjitter, Ran};
use crate::schema;

fn run_each(args: &[&str]) -> Osjitter {
    Osjitter::new(["run", "--each"]).args(args)
}

/// Returns the CPUs of this process.
fn allowed_cpus() -> Vec<usize> {
    os::affinity().expect("Linux has affinity masks")
}

/// Two CPUs of this process.
#[derive(Clone, Copy)]
struct CpuPair {
    first: usize,
    second: usize,
}

impl CpuPair {
    /// Returns `None` on a machine with one CPU.
    fn find() -> Option<Self> {
        let &[first, second, ..] = &allowed_cpus()[..] else { return None };
        Some(Self { first, second })
    }

    /// Formats the CPUs for `--cpus`.
    fn list(self) -> String {
        format!("{},{}", self.first, self.second)
    }
}

fn scripted_id(cpu: usize) -> String {
    format!("scripted@500us/current-thread/cpu-{cpu}")
}

#[test]
fn each_cpu_has_a_row() {
    let cpus = allowed_cpus();
    let args = ["--subject", "nanosleep", "--subject", "os-interval", "--ticks", "60"];
    let ran = run_each(&args).args(["--period", "1ms"]).without_width().out("").run().exits(0);
    schema::valid(&ran.file("report.json"), "report.1");
    let report = ran.report();
    assert_eq!(report.subjects.len(), 2 * cpus.len());
    for (name, id) in [
        ("nanosleep", "nanosleep@1ms/cpu-"),
        ("os-interval", "os-interval@1ms/current-thread/cpu-"),
    ] {
        for cpu in &cpus {
            let id = format!("{id}{cpu}");
            let subject = report.subjects.iter().find(|s| s.id == id).expect("a row per CPU");
            assert_eq!((&*subject.name, subject.cpu), (name, Some(*cpu as u64)));
            assert_eq!(subject.status, Status::Measured);
            let summary = subject.summary.as_ref().unwrap();
            assert_eq!((summary.ticks, summary.early), (60, Some(0)), "{id}");
            assert!(ran.stdout.contains(&format!("{name}/cpu-{cpu} ")), "{}", ran.stdout);
            assert!(ran.file("report.html").contains(&format!("{name}/cpu-{cpu}")));
            assert!(ran.file("percentiles.svg").contains(&format!("{name}/cpu-{cpu}")));
        }
    }
    let compared: Vec<&str> =
        report.cpu_comparisons.iter().flat_map(|c| &c.subjects).map(String::as_str).collect();
    let all: Vec<&str> = report.subjects.iter().map(|s| s.id.as_str()).collect();
    assert_eq!(compared.len(), if cpus.len() > 1 { all.len() } else { 0 }, "{compared:?}");
    // All CPUs have the same deadlines.
    for group in report.subjects.chunks(cpus.len()) {
        for subject in group {
            for (round, first) in subject.rounds.iter().zip(&group[0].rounds) {
                let key = |r: &files::report::Round| (r.index, r.slot, r.start_ns, r.phase_ns);
                assert_eq!(key(round), key(first), "{}", subject.id);
            }
        }
    }
}

#[test]
fn default_is_the_control() {
    let cpu = allowed_cpus()[0].to_string();
    let ran = run_each(&["--cpus", &cpu, "--ticks", "20"]).out("").run().exits(0);
    let first = ran.report();
    assert_eq!(first.subjects.len(), 1);
    assert_eq!(first.subjects[0].id, format!("nanosleep@500us/cpu-{cpu}"));
    assert!(first.cpu_comparisons.is_empty(), "one CPU has no other");
    let plan = ran.path("report.json").display().to_string();
    let again = Osjitter::new(["run", "--plan", &plan]).out("").run().exits(0);
    assert_eq!(again.report().plan, first.plan);
    let printed = Osjitter::new(["run", "--plan", &plan, "--print-plan"]).run().exits(0).stdout;
    assert!(printed.contains(&format!("cpus = \"{cpu}\"")), "{printed}");
}

/// A subject that is later on the second of two CPUs by these times.
fn script(cpus: CpuPair, later_ns: &[i64]) -> Value {
    let late: Vec<Value> = later_ns.iter().map(|ns| json!([14_000 + ns, 15_000 + ns])).collect();
    json!({
        scripted_id(cpus.first): { "lateness_ns": [14_000, 15_000] },
        scripted_id(cpus.second): { "lateness_ns": late },
    })
}

/// Measures two scripted CPUs.
fn run_script(cpus: CpuPair, later_ns: &[i64]) -> Ran {
    let list = cpus.list();
    let args = ["--cpus", &list, "--subject", "scripted", "--ticks", "1000", "--round-ticks", "50"];
    run_each(&args).script(&script(cpus, later_ns)).without_width().out("").run().exits(0)
}

#[test]
fn differing_cpu_is_named() {
    let Some(cpus) = CpuPair::find() else { return };
    let ran = run_script(cpus, &[100_000, 90_000, 110_000]);
    let CpuPair { first, second } = cpus;
    let expected = format!(
        "CPU {second} differs from CPU {first}, in 20 rounds: 100 us later [90.0, 110 us] at p50."
    );
    assert!(ran.stdout.contains(&expected), "{}", ran.stdout);
    assert!(!ran.stdout.contains("had the lowest"), "CPUs are not ranked: {}", ran.stdout);
    assert!(ran.file("report.html").contains(&expected));
    let path = ran.path("report.json").display().to_string();
    let markdown = Osjitter::new(["report", &path, "--format", "markdown"]).run().exits(0).stdout;
    assert!(markdown.replace('\\', "").contains(&expected), "{markdown}");
    let comparison = &ran.report().cpu_comparisons[0];
    let findings: Vec<CpuFinding> = comparison.differences.iter().map(|d| d.finding).collect();
    assert_eq!(findings, [CpuFinding::Earlier, CpuFinding::Later]);
}

#[test]
fn equal_cpus_are_not_named() {
    let Some(cpus) = CpuPair::find() else { return };
    let ran = run_script(cpus, &[1_000, -1_000]);
    let expected = "No CPU was shown to differ from the others, in 20 rounds.";
    assert!(ran.stdout.contains(expected), "{}", ran.stdout);
}

#[test]
fn merged_runs_are_compared_again() {
    let Some(cpus) = CpuPair::find() else { return };
    let (first, second) = (run_script(cpus, &[5_000]), run_script(cpus, &[6_000]));
    let merged =
        Osjitter::new(["merge"]).args([first.directory(), second.directory()]).run().exits(0);
    let merged = Report::from_json(&merged.stdout).unwrap();
    let differences = &merged.cpu_comparisons[0].differences;
    assert!(differences.iter().all(|d| d.rounds == 40), "{differences:?}");
    assert_eq!(differences[1].finding, CpuFinding::Later);
    let [first_id, second_id] = [0, 1].map(|i| merged.subjects[i].id.clone());
    let path = first.path("report.json").display().to_string();
    let sides = [first_id, second_id].map(|id| format!("{path}#{id}"));
    let compared = Osjitter::new(["compare"]).args(sides).run().exits(0).stdout;
    assert!(compared.contains("later"), "{compared}");
}

#[test]
fn late_cpu_stops_the_run() {
    let Some(cpus) = CpuPair::find() else { return };
    let list = cpus.list();
    let late_id = scripted_id(cpus.second);
    let mut lateness = vec![[14_000]; 3];
    lateness.push([900_000]);
    let scripts = json!({
        scripted_id(cpus.first): { "lateness_ns": [14_000] },
        &late_id: { "lateness_ns": lateness },
    });
    let args =
        ["--cpus", &list, "--subject", "scripted", "--break", "500us", "--round-ticks", "50"];
    let ran = run_each(&args).script(&scripts).out("").run().exits(1);
    let flight: Value = serde_json::from_str(&ran.file("flight.json")).unwrap();
    assert_eq!(
        (&flight["late"]["subject"], &flight["late"]["round"]),
        (&json!(late_id), &json!(3))
    );
}

/// A refused command line exits with 2, prints one message, and measures nothing.
fn refuse(args: &[&str], expected: &str) {
    let ran = Osjitter::new(["run"]).args(args).out("").run().refuses(expected);
    assert_eq!(ran.stderr.matches("error: ").count(), 1, "{}", ran.stderr);
    assert!(!ran.path("report.json").exists());
}

#[test]
fn unusable_arguments_are_refused() {
    for (args, expected) in [
        (
            &["--each", "--cpus", "8000"][..],
            "cannot use CPU 8000: it does not exist; allowed CPUs: ",
        ),
        (&["--each", "--cpus", "3-1"], "invalid list of CPUs \"3-1\""),
        (&["--cpus", "0"], "required arguments were not provided:\n  --each"),
        (&["--each", "--cpu", "0"], "cannot be used with"),
        (&["--each", "--why"], "--each and --why exclude each other"),
        (&["--each", "--runtime", "multi-thread"], "--runtime multi-thread:2 has more"),
        (&["--each", "--command", "true"], "true is a program"),
        (&["--each", "--subject", "os-interval", "--command", "true"], "true is a program"),
    ] {
        refuse(args, expected);
    }
}

#[test]
fn cpus_outside_mask_are_refused() {
    let Some(CpuPair { first: allowed, second: forbidden }) = CpuPair::find() else { return };
    std::thread::scope(|scope| {
        scope.spawn(|| {
            // The command inherits the mask of the thread that starts it.
            os::bind(&[allowed]).expect("one of the allowed CPUs");
            let expected = format!(
                "cannot use CPU {forbidden}: it is outside of the affinity mask or the cpuset of this process; allowed CPUs: {allowed}"
            );
            refuse(&["--each", "--cpus", &forbidden.to_string()], &expected);
        });
    });
}

/// Binds all threads of a process to a CPU, as `taskset -a -p` does.
fn bind_process(process: u32, cpu: usize) {
    let mut cpus = rustix::thread::CpuSet::new();
    cpus.set(cpu);
    for entry in std::fs::read_dir(format!("/proc/{process}/task")).unwrap().flatten() {
        let thread = entry.file_name().to_str().and_then(|id| id.parse().ok());
        let thread = thread.and_then(rustix::thread::Pid::from_raw);
        // A thread may have exited.
        let _ = rustix::thread::sched_setaffinity(thread, &cpus);
    }
}

#[test]
fn moved_rounds_are_excluded() {
    let Some(cpus) = CpuPair::find() else { return };
    // A busy machine needs longer for a round after the change.
    for pause_ms in [300, 2_000, 10_000, 50_000] {
        let args = ["run", "--subject", "os-interval", "--period", "1ms", "--duration", "600s"];
        let cpu = cpus.first.to_string();
        let mut running = Osjitter::new(args).args(["--cpu", &cpu]).out("").start();
        running.says(" ticks: about ");
        bind_process(running.id(), cpus.second);
        #[allow(clippy::disallowed_methods, reason = "the command measures during the pause")]
        std::thread::sleep(std::time::Duration::from_millis(pause_ms));
        running.signal(rustix::process::Signal::INT);
        let ran = running.ends().exits(4);
        schema::valid(&ran.file("report.json"), "report.1");
        let report = ran.report();
        let subject = &report.subjects[0];
        let Some(excluded) = subject.excluded.last() else { continue };
        let change = &excluded.changes[0];
        assert_eq!(change.what, "CPU affinity");
        assert_eq!(change.from, format!("[{}]", cpus.first));
        assert_eq!(change.to, format!("[{}]", cpus.second));
        let settings = subject.settings.as_ref().expect("settings");
        assert_eq!(settings.threads[0].affinity.as_deref(), Some(&[cpus.first][..]));
        let recorded: u64 = subject.rounds.iter().map(|round| round.lateness_ns.len() as u64).sum();
        let summarized = subject.summary.as_ref().map_or(0, |summary| summary.ticks);
        assert_eq!(recorded, summarized, "excluded rounds are part of no number");
        let is_warning = |text: &str| text.contains("excluded: the CPU affinity was changed from");
        assert!(report.warnings.iter().any(|warning| is_warning(&warning.message)));
        let joined = ran.stdout.replace('\n', " ");
        assert!(is_warning(&joined), "{joined}");
        assert!(is_warning(&ran.file("report.html")));
        return;
    }
    panic!("no round ended within 50 s");
}
