//! A line of the file.

use std::ffi::OsString;

pub struct Setting {
    pub key: String,
    pub value: Value,
    pub line: usize,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value {
    Flag(bool),
    One(String),
    Several(Vec<String>),
}

impl Setting {
    /// As arguments.
    pub fn words(&self) -> Vec<OsString> {
        let word = |value: &String| OsString::from(format!("--{}={value}", self.key));
        match &self.value {
            Value::Flag(true) => vec![format!("--{}", self.key).into()],
            Value::Flag(false) => Vec::new(),
            Value::One(value) => vec![word(value)],
            Value::Several(values) => values.iter().map(word).collect(),
        }
    }
}

/// A setting of the file that is not used, and why.
pub struct Unused<'a> {
    pub setting: &'a Setting,
    pub why: String,
}
