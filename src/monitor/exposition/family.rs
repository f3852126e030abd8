//! Metric families and their samples in base units, independent of the format.

use std::borrow::Cow;

use crate::monitor::exposition::histogram::Histogram;

/// Label names and values.
pub type Labels<'a> = Vec<(&'static str, Cow<'a, str>)>;

#[derive(Debug)]
pub struct Family<'a> {
    /// Name without the suffix of its kind.
    pub name: &'static str,
    pub kind: FamilyKind,
    pub help: &'static str,
    pub samples: Vec<Sample<'a>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FamilyKind {
    Info,
    Counter,
    Gauge,
    Histogram,
}

#[derive(Debug)]
pub struct Sample<'a> {
    pub labels: Labels<'a>,
    pub value: Value<'a>,
}

#[derive(Debug)]
pub enum Value<'a> {
    Number(f64),
    Histogram(Histogram<'a>),
}

impl Family<'_> {
    /// Returns the name with the suffix of its kind, as the samples have it.
    pub fn full_name(&self) -> String {
        let suffix = match self.kind {
            FamilyKind::Info => "_info",
            FamilyKind::Counter => "_total",
            FamilyKind::Gauge | FamilyKind::Histogram => "",
        };
        format!("{}{suffix}", self.name)
    }
}
