//! Tests of the processes and files that a killed osjitter leaves behind: none.
#![cfg(target_os = "linux")]

use std::path::{Path, PathBuf};

use crate::osjitter::{Osjitter, Running};
use crate::process_control::{eventually, processes_with_variable};

/// Variable in the environment of osjitter and of everything that it starts.
const MARK: &str = "HOME_OF_TEST";

/// A directory for temporary files, which must be empty at the end.
struct Scene {
    home: tempfile::TempDir,
}

impl Scene {
    fn new() -> Self {
        let home = tempfile::tempdir().unwrap();
        std::fs::create_dir(home.path().join("tmp")).unwrap();
        Self { home }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.home.path().join(name)
    }

    fn start(&self, args: &[&str]) -> Running {
        let command = Osjitter::new(args).env("TMPDIR", self.path("tmp")).out("");
        command.env(MARK, self.home.path()).start()
    }

    /// A command that runs until it is killed, with a child in its group and one in a session of
    /// its own. It creates a file when all of them run.
    fn endless(&self, started: &str) -> String {
        let file = self.path(started);
        format!("sh -c 'setsid sleep 1000 & sleep 1000 & : > {}; sleep 1000'", file.display())
    }

    fn processes(&self) -> Vec<u32> {
        processes_with_variable(MARK, self.home.path())
    }

    /// Waits until neither processes nor temporary files are left.
    fn assert_cleaned_up(&self) {
        let is_clean = || self.processes().is_empty() && is_empty(&self.path("tmp"));
        assert!(eventually(is_clean), "{:?}", self.processes());
    }
}

fn is_empty(directory: &Path) -> bool {
    std::fs::read_dir(directory).unwrap().next().is_none()
}

#[test]
fn killed_run_ends_stopped_loads() {
    let scene = Scene::new();
    let [one, two] = ["one", "two"].map(|name| scene.endless(name));
    let mut running = scene.start(&[
        "run", "--subject", "nanosleep", "--period", "1ms", "--duration", "600s", "--load",
        "cpu:1", "--load", &one, "--load", &two,
    ]);
    // The loads take turns: most of them are stopped at any time.
    running.says("about");
    assert!(eventually(|| scene.path("one").exists() && scene.path("two").exists()));
    assert!(scene.processes().len() > 6, "{:?}", scene.processes());
    running.kill();
    scene.assert_cleaned_up();
}

#[test]
fn killed_gate_ends_its_program() {
    let scene = Scene::new();
    let command = scene.endless("started");
    let programs = ["--base-cmd", &command, "--candidate-cmd", &command];
    let args = [&["gate", "--metric", "wall"][..], &programs].concat();
    let running = scene.start(&args);
    assert!(eventually(|| scene.path("started").exists()));
    assert!(!is_empty(&scene.path("tmp")), "the directory for its output");
    running.kill();
    scene.assert_cleaned_up();
}
