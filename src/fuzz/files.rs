//! Targets for the files of osjitter other than reports.

use std::fmt::Debug;

use crate::doctor;
use crate::doctor::file::Checkup;
use cli::exit::{self, Error};
use cli::file_io;
use files::compare::Comparison;
use files::file::File;
use files::find::Find;
use files::gate::baseline::Baseline;
use files::gate::baseline_test;
use files::gate::calibration::Calibration;
use files::gate::calibration::runs::RunCalibration;
use files::gate::verdict::Verdict;
use jitterstat::gate::decision::Rules;

use crate::bench;
use crate::flight_record::{self, Flight};
use crate::fuzz::round_trip;
use crate::fuzz::step_costs::StepCosts;
use crate::gate::calibrate;
use crate::gate::text::answers::baseline_document;
use crate::gate::text::{RenderedVerdict, formats};
use crate::monitor::breaches::{self as broken_limits, Breaches};
use crate::{compare, find as found};
use render::document::terminal;
use render::formats::{Format, Offer, Rendering, make};

/// Decodes the text of a file.
pub fn text(bytes: &[u8]) -> exit::Result<String> {
    file_io::decode_utf8(bytes.to_vec())
}

fn read<T: File>(bytes: &[u8], costs: &StepCosts) -> exit::Result<T> {
    costs.measure("read", || T::from_json(&text(bytes)?).map_err(|e| Error::usage(e.to_string())))
}

/// Checks that a file survives writing and reading.
fn check_written<T: File + PartialEq>(file: &T, costs: &StepCosts) {
    let json = costs.measure("json", || file.to_json());
    match costs.measure("read again", || T::from_json(&json)) {
        Ok(again) => assert!(again == *file, "the file differs when it is read again"),
        Err(error) => panic!("what we write must be readable: {error}"),
    }
}

fn check_formats<T>(value: &T, offers: &[Offer<T>], costs: &StepCosts) {
    for &(format, _) in offers {
        if let Ok(rendering) = costs.measure("format", || make("a file", offers, format, value)) {
            round_trip::check(format, &rendering);
        }
    }
}

/// Checks that a file survives writing and reading, and renders it in every format.
pub fn check_file<T: File + PartialEq + Debug>(file: &T, offers: &[Offer<T>], costs: &StepCosts) {
    check_written(file, costs);
    check_formats(file, offers, costs);
}

pub fn verdict(bytes: &[u8], costs: &StepCosts) -> exit::Result<()> {
    let verdict: Verdict = read(bytes, costs)?;
    check_written(&verdict, costs);
    let rendered = costs.measure("worded", || RenderedVerdict::from(verdict));
    check_formats(&rendered, &formats::FORMATS, costs);
    Ok(())
}

pub fn comparison(bytes: &[u8], costs: &StepCosts) -> exit::Result<()> {
    check_file::<Comparison>(&read(bytes, costs)?, &compare::formats::FORMATS, costs);
    Ok(())
}

pub fn checkup(bytes: &[u8], costs: &StepCosts) -> exit::Result<()> {
    check_file::<Checkup>(&read(bytes, costs)?, &doctor::text::FORMATS, costs);
    Ok(())
}

pub fn flight(bytes: &[u8], costs: &StepCosts) -> exit::Result<()> {
    check_file::<Flight>(&read(bytes, costs)?, &flight_record::formats::FORMATS, costs);
    Ok(())
}

pub fn breaches(bytes: &[u8], costs: &StepCosts) -> exit::Result<()> {
    check_file::<Breaches>(&read(bytes, costs)?, &broken_limits::formats::FORMATS, costs);
    Ok(())
}

pub fn find(bytes: &[u8], costs: &StepCosts) -> exit::Result<()> {
    check_file::<Find>(&read(bytes, costs)?, &found::formats::FORMATS, costs);
    Ok(())
}

pub fn calibration(bytes: &[u8], costs: &StepCosts) -> exit::Result<()> {
    if let Ok(calibration) = read::<RunCalibration>(bytes, costs) {
        check_file(&calibration, &calibrate::text::RUN_FORMATS, costs);
        return Ok(());
    }
    check_file::<Calibration>(&read(bytes, costs)?, &calibrate::text::FORMATS, costs);
    Ok(())
}

/// Reads stored sessions and judges the last one by the others, or by itself if it is the only one.
pub fn baseline(bytes: &[u8], costs: &StepCosts) -> exit::Result<()> {
    let baseline: Baseline = read(bytes, costs)?;
    check_written(&baseline, costs);
    let Some((new, stored)) = baseline.sessions.split_last() else { return Ok(()) };
    let stored = if stored.is_empty() { std::slice::from_ref(new) } else { stored };
    let (design, rules) = (&baseline.scenario, Rules::new(baseline.scenario.period_ns));
    let metrics = costs.measure("judge", || baseline_test::judge(new, stored, design, &rules));
    let _ = costs.measure("usable", || baseline_test::rejection_reason(new, design, &rules));
    let table = costs.measure("table", || terminal::render(&baseline_document(&metrics), 80));
    round_trip::check(Format::Table, &Rendering::Text(table));
    Ok(())
}

/// Reads the file of a bench and renders it in every format.
pub fn bench(bytes: &[u8], costs: &StepCosts) -> exit::Result<()> {
    let text = text(bytes)?;
    let make = |text: &str, format| costs.measure("format", || bench::render(text, format, true));
    let Rendering::Text(json) = bench::render(&text, Format::Json, false)? else {
        unreachable!("JSON is text")
    };
    match bench::render(&json, Format::Json, false) {
        Ok(Rendering::Text(again)) => {
            assert!(again == json, "the file differs when it is read again")
        }
        _ => panic!("what we write must be readable"),
    }
    for format in [Format::Table, Format::Markdown, Format::Svg] {
        if let Ok(rendering) = make(&text, format) {
            round_trip::check(format, &rendering);
        }
    }
    Ok(())
}
