//! `osjitter doctor`: everything about this machine that makes ticks late, and what changes it.
//!
//! [`facts`] reads, [`judge`] makes lines of it without reading, [`text`] shows them. Nothing is
//! changed; [`prove`] tries the settings that concern this process alone.

pub mod args;
mod facts;
pub mod file;
mod judge;
mod proof_text;
mod prove;
pub mod text;
mod tools;

use std::path::Path;
use std::time::SystemTime;

use cli::exit::{self, ExitStatus, usage};
use engine::machine::host;
use files::file::File as _;

use crate::render::formats::make;
use crate::{file_io, interop};

use args::DoctorArgs;
use facts::{Facts, Process};
use file::Checkup;

pub fn run(args: &DoctorArgs) -> exit::Result<ExitStatus> {
    if let Some(out) = &args.out {
        file_io::check_writable(out)?;
    }
    let process = Process::ask(tools::names().map(str::to_owned).collect());
    let cpu = asked_cpu(args, &process)?;
    let host = host::capture();
    let (mut items, tools) = items(&args.root, process, cpu);
    for file in &args.import {
        items.push(tools::imported(&file.display().to_string(), &interop::read(file)?)?);
    }
    let started_utc = humantime::format_rfc3339_seconds(SystemTime::now()).to_string();
    let proof = args.prove.then(|| prove::prove(&args.proof, &host)).transpose()?;
    let partial = proof.as_ref().is_some_and(|proof| proof.partial);
    let schema = Checkup::SCHEMA.to_owned();
    let checkup =
        Checkup { schema, tool: host::tool(), started_utc, host, cpu, items, tools, proof };
    let made = make("a checkup", &text::FORMATS, args.format, &checkup)?;
    file_io::write_output(made.into_bytes(), args.out.as_deref())?;
    Ok(if partial { ExitStatus::NotMeasured } else { ExitStatus::Done })
}

/// The CPU that was asked for, or the last one allowed, which a gate takes too.
fn asked_cpu(args: &DoctorArgs, process: &Process) -> exit::Result<usize> {
    let allowed = process.affinity.as_deref().unwrap_or_default();
    match args.cpu {
        Some(cpu) if !allowed.is_empty() && !allowed.contains(&cpu) => {
            let list: Vec<String> = allowed.iter().map(usize::to_string).collect();
            Err(usage!(
                "CPU {cpu} is not there or not allowed; this process may use {}",
                list.join(", ")
            ))
        }
        Some(cpu) => Ok(cpu),
        None => Ok(allowed.last().copied().unwrap_or(0)),
    }
}

fn items(root: &Path, process: Process, cpu: usize) -> (Vec<file::Item>, Vec<file::OtherTool>) {
    if cfg!(target_os = "linux") {
        let facts = Facts::read(root, process, cpu);
        (judge::items(&facts), tools::tools(&facts))
    } else {
        (judge::items_of(std::env::consts::OS), Vec::new())
    }
}

#[cfg(test)]
mod tests;
