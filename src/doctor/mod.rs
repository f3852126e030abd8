//! `osjitter doctor`: lists the settings of a machine that make ticks late, with commands that
//! change them.
//!
//! [`facts`] reads the machine, [`judge`] turns the facts into items without any I/O, and [`text`]
//! formats them. Nothing on the machine is changed; [`prove`] tries the settings that affect this
//! process alone.

pub mod args;
mod facts;
pub mod file;
mod judge;
mod proof_text;
mod prove;
pub mod text;
mod tools;
mod unread_settings;

use std::path::{Path, PathBuf};
use std::time::SystemTime;

use cli::exit::{self, Error, ExitStatus, usage};
use cli::file_io;
use cli::file_io::Destination;
use cli::terminal;
use engine::machine::host;
use files::file::File as _;

use render::formats::make;

use args::DoctorArgs;
use facts::{MachineFacts, ProcessFacts};
use file::{Checkup, Proof};

/// Examines the machine, writes the checkup and prints it.
pub fn run(args: &DoctorArgs) -> exit::Result<ExitStatus> {
    let destination = Destination::from_flags(args.out.as_deref(), args.force);
    if let Some(destination) = destination {
        destination.check_inputs(args.import.iter().map(PathBuf::as_path))?;
        destination.check_file()?;
    }
    let process = ProcessFacts::read(tools::names().map(str::to_owned).collect());
    let cpu = select_cpu(args, &process)?;
    let host = host::capture();
    let (mut items, tools) = examine(&args.root, process, cpu);
    for file in &args.import {
        let report = interop::read(file)?;
        items.push(tools::import_item(&file.display().to_string(), &report)?);
    }
    let started_utc = humantime::format_rfc3339_seconds(SystemTime::now()).to_string();
    let proof = args.prove.then(|| prove::prove(&args.proof, &host)).transpose()?;
    let partial = proof.as_ref().is_some_and(|proof| proof.partial);
    let mut failures = Vec::from_iter(proof.as_ref().and_then(proof_text::no_answer));
    failures.extend(proof.iter().flat_map(Proof::failures));
    let schema = Checkup::SCHEMA.to_owned();
    let checkup =
        Checkup { schema, tool: host::tool(), started_utc, host, cpu, items, tools, proof };
    let made = make("a checkup", &text::FORMATS, args.format, &checkup)?;
    write(destination, made.into_bytes(), partial)?;
    // A setting that could not be measured is an error, although others have results. So is a proof
    // without an answer.
    if !partial {
        failures.iter().for_each(|failure| terminal::failure(&Error::measure(failure)));
    }
    let is_complete = !partial && failures.is_empty();
    Ok(if is_complete { ExitStatus::Done } else { ExitStatus::NotMeasured })
}

/// Writes a checkup, or prints it. It is also printed if it cannot be written, so that a proof is not
/// lost.
fn write(
    destination: Option<Destination<'_>>,
    checkup: Vec<u8>,
    is_partial: bool,
) -> exit::Result<()> {
    let Some(destination) = destination else { return file_io::write_output(checkup, None) };
    destination.write_measured(&checkup, is_partial).map(drop).or_else(|error| {
        file_io::write_output(checkup, None)?;
        Err(error)
    })
}

/// Returns the CPU of `--cpu`, or the last one allowed, which a gate uses as well.
fn select_cpu(args: &DoctorArgs, process: &ProcessFacts) -> exit::Result<usize> {
    let allowed = process.affinity.as_deref().unwrap_or_default();
    match args.cpu {
        Some(cpu) if !allowed.is_empty() && !allowed.contains(&cpu) => {
            let list: Vec<String> = allowed.iter().map(usize::to_string).collect();
            Err(usage!(
                "CPU {cpu} does not exist or is not allowed; this process may use {}",
                list.join(", ")
            ))
        }
        Some(cpu) => Ok(cpu),
        None => Ok(allowed.last().copied().unwrap_or(0)),
    }
}

fn examine(
    root: &Path,
    process: ProcessFacts,
    cpu: usize,
) -> (Vec<file::Item>, Vec<file::OtherTool>) {
    if cfg!(target_os = "linux") {
        let facts = MachineFacts::read(root, process, cpu);
        (judge::items(&facts), tools::check_tools(&facts))
    } else {
        (unread_settings::items(std::env::consts::OS), Vec::new())
    }
}

#[cfg(test)]
mod tests;
