//! What is exposed, before it has a form: families of samples, in base units.

use std::borrow::Cow;

use crate::monitor::exposition::histogram::Histogram;

/// Label names and values.
pub type Labels<'a> = Vec<(&'static str, Cow<'a, str>)>;

#[derive(Debug)]
pub struct Family<'a> {
    /// Without the ending of its kind.
    pub name: &'static str,
    pub kind: Kind,
    pub help: &'static str,
    pub samples: Vec<Sample<'a>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
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
    /// As its samples are called.
    pub fn full_name(&self) -> String {
        let ending = match self.kind {
            Kind::Info => "_info",
            Kind::Counter => "_total",
            Kind::Gauge | Kind::Histogram => "",
        };
        format!("{}{ending}", self.name)
    }
}
