//! A setting of the file.

use std::ffi::OsString;

/// A line of the file.
pub struct Setting {
    pub key: String,
    pub value: Value,
    pub line: usize,
}

/// The value of a setting.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value {
    Switch(bool),
    Scalar(String),
    List(Vec<String>),
}

impl Setting {
    /// Converts the setting to words of a command line.
    pub fn words(&self) -> Vec<OsString> {
        let word = |value: &String| OsString::from(format!("--{}={value}", self.key));
        match &self.value {
            Value::Switch(true) => vec![format!("--{}", self.key).into()],
            Value::Switch(false) => Vec::new(),
            Value::Scalar(value) => vec![word(value)],
            Value::List(values) => values.iter().map(word).collect(),
        }
    }
}

/// A setting of the file that is not used.
pub struct IgnoredSetting<'a> {
    pub setting: &'a Setting,
    pub reason: String,
}

/// The settings of a command, divided by whether they are used.
pub struct FilteredSettings<'a> {
    pub used: Vec<&'a Setting>,
    pub ignored: Vec<IgnoredSetting<'a>>,
}
