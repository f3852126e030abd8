//! The other files of ours.

use std::fmt::Debug;

use cli::exit::{self, Error};
use files::compare::Comparison;
use files::file::File;
use files::find::Find;
use files::gate::baseline::Baseline;
use files::gate::baseline_test;
use files::gate::calibration::Calibration;
use files::gate::calibration::runs::RunCalibration;
use files::gate::verdict::Verdict;
use jitterstat::gate::decision::Rules;

use crate::doctor::file::Checkup;
use crate::fuzz::again;
use crate::fuzz::stage::Stages;
use crate::gate::{calibrate, worded};
use crate::render::formats::{Format, Made, Offer, make};
use crate::{bench as benches, compare, doctor, file_io, find as found, gate};

/// The text of a file.
pub fn text(bytes: &[u8]) -> exit::Result<String> {
    file_io::decoded(bytes.to_vec())
}

fn read<T: File>(bytes: &[u8], stages: &Stages) -> exit::Result<T> {
    stages.of("read", || T::from_json(&text(bytes)?).map_err(|e| Error::usage(e.to_string())))
}

/// The file is read again to itself.
fn written<T: File + PartialEq>(file: &T, stages: &Stages) {
    let json = stages.of("json", || file.to_json());
    match stages.of("read again", || T::from_json(&json)) {
        Ok(again) => assert!(again == *file, "it is another file when it is read again"),
        Err(error) => panic!("what we write we refuse: {error}"),
    }
}

fn formats<T>(of: &T, offers: &[Offer<T>], stages: &Stages) {
    for &(format, _) in offers {
        if let Ok(made) = stages.of("format", || make("a file", offers, format, of)) {
            again::check(format, &made);
        }
    }
}

/// Written, and shown in every format.
pub fn shown<T: File + PartialEq + Debug>(file: &T, offers: &[Offer<T>], stages: &Stages) {
    written(file, stages);
    formats(file, offers, stages);
}

pub fn verdict(bytes: &[u8], stages: &Stages) -> exit::Result<()> {
    let verdict: Verdict = read(bytes, stages)?;
    written(&verdict, stages);
    let worded = stages.of("worded", || worded(verdict));
    formats(&worded, &gate::formats::FORMATS, stages);
    Ok(())
}

pub fn comparison(bytes: &[u8], stages: &Stages) -> exit::Result<()> {
    shown::<Comparison>(&read(bytes, stages)?, &compare::formats::FORMATS, stages);
    Ok(())
}

pub fn checkup(bytes: &[u8], stages: &Stages) -> exit::Result<()> {
    shown::<Checkup>(&read(bytes, stages)?, &doctor::text::FORMATS, stages);
    Ok(())
}

pub fn find(bytes: &[u8], stages: &Stages) -> exit::Result<()> {
    shown::<Find>(&read(bytes, stages)?, &found::formats::FORMATS, stages);
    Ok(())
}

pub fn calibration(bytes: &[u8], stages: &Stages) -> exit::Result<()> {
    if let Ok(of_runs) = read::<RunCalibration>(bytes, stages) {
        shown(&of_runs, &calibrate::text::RUN_FORMATS, stages);
        return Ok(());
    }
    shown::<Calibration>(&read(bytes, stages)?, &calibrate::text::FORMATS, stages);
    Ok(())
}

/// Stored sessions: the last is judged by the others, or by itself.
pub fn baseline(bytes: &[u8], stages: &Stages) -> exit::Result<()> {
    let baseline: Baseline = read(bytes, stages)?;
    written(&baseline, stages);
    let Some((new, stored)) = baseline.sessions.split_last() else { return Ok(()) };
    let stored = if stored.is_empty() { std::slice::from_ref(new) } else { stored };
    let (design, rules) = (&baseline.scenario, Rules::new(baseline.scenario.period_ns));
    let metrics = stages.of("judge", || baseline_test::judge(new, stored, design, &rules));
    let _ = stages.of("usable", || baseline_test::rejection_reason(new, design, &rules));
    let table = stages.of("table", || gate::against::table(&metrics, 80));
    again::check(Format::Table, &Made::Text(table));
    Ok(())
}

/// Of a bench the file is read for each format.
pub fn bench(bytes: &[u8], stages: &Stages) -> exit::Result<()> {
    let text = text(bytes)?;
    let make = |text: &str, format| stages.of("format", || benches::render(text, format, true));
    let Made::Text(json) = benches::render(&text, Format::Json, false)? else {
        unreachable!("JSON is text")
    };
    match benches::render(&json, Format::Json, false) {
        Ok(Made::Text(again)) => assert!(again == json, "it is another file when it is read again"),
        _ => panic!("what we write we refuse"),
    }
    for format in [Format::Table, Format::Markdown, Format::Svg] {
        if let Ok(made) = make(&text, format) {
            again::check(format, &made);
        }
    }
    Ok(())
}
