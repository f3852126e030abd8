//! Arguments of which a shell can complete some values.

use std::ffi::OsStr;

use clap::builder::{PossibleValue, StringValueParser, TypedValueParser};
use clap::{Arg, Command};

/// Parser of an argument of which a shell can complete some values. Others are accepted as well.
#[derive(Clone, Debug)]
pub struct ExampleParser<F> {
    parse: F,
    examples: fn() -> Vec<PossibleValue>,
}

/// Returns a parser of values with these examples for completion.
pub fn with_examples<F, T>(parse: F, examples: fn() -> Vec<PossibleValue>) -> ExampleParser<F>
where
    F: Fn(&str) -> Result<T, String>,
{
    ExampleParser { parse, examples }
}

impl<F, T> TypedValueParser for ExampleParser<F>
where
    F: Fn(&str) -> Result<T, String> + Clone + Send + Sync + 'static,
    T: Clone + Send + Sync + 'static,
{
    type Value = T;

    fn parse_ref(&self, cmd: &Command, arg: Option<&Arg>, value: &OsStr) -> Result<T, clap::Error> {
        let parse = self.parse.clone();
        StringValueParser::new().try_map(move |text| parse(&text)).parse_ref(cmd, arg, value)
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        Some(Box::new((self.examples)().into_iter()))
    }
}

/// Returns values without a description.
pub fn plain_values<'a>(names: impl IntoIterator<Item = &'a &'static str>) -> Vec<PossibleValue> {
    names.into_iter().map(|name| PossibleValue::new(*name)).collect()
}
