//! Target for `osjitter.toml`.

use std::cell::RefCell;
use std::fs::File;

use clap::Command;
use cli::exit;

use crate::fuzz::step_costs::StepCosts;
use crate::settings::config_file;
use crate::settings::open_file::OpenFile;

thread_local! {
    static COMMAND: Command = {
        let mut command = crate::command();
        command.build();
        command
    };
    /// The file of settings; it holds one input after the other.
    static FILE: RefCell<tempfile::NamedTempFile> = RefCell::new(tempfile::NamedTempFile::new().expect("a temporary file"));
}

/// Reads the settings of all commands.
pub fn body(bytes: &[u8], costs: &StepCosts) -> exit::Result<()> {
    let file = FILE.with_borrow(|file| {
        std::fs::write(file.path(), bytes).expect("a temporary file");
        OpenFile {
            path: file.path().to_owned(),
            opened: File::open(file.path()).expect("a temporary file"),
        }
    });
    let read = || COMMAND.with(|command| config_file::read(file, command));
    let settings = costs.measure("read", read)?;
    let lines = bytes.split(|&byte| byte == b'\n').count();
    for setting in &settings {
        assert!((1..=lines).contains(&setting.line), "{}: line {}", setting.key, setting.line);
        let flag = format!("--{}", setting.key);
        let words = setting.words();
        assert!(words.iter().all(|word| word.to_string_lossy().starts_with(&flag)), "{words:?}");
    }
    Ok(())
}
