//! The keys of a file that name its kind.

use std::borrow::Cow;
use std::fmt;

use serde::Deserialize;
use serde::de::{Deserializer as _, IgnoredAny, MapAccess, Visitor};

/// The schema of a file, and its bench.
#[derive(Default, Deserialize)]
pub(super) struct Head {
    pub schema: Option<String>,
    pub bench: Option<String>,
}

impl Head {
    /// Reads a file only as far as these keys, which are usually the first ones. `needs_bench` is
    /// whether the file has a bench.
    ///
    /// Text that is not JSON has the keys before the error.
    pub(super) fn read_start(text: &str, needs_bench: bool) -> Self {
        let mut head = Self::default();
        let reader = HeadReader { head: &mut head, needs_bench };
        // The reader stops within the object, which is an error to the deserializer.
        let _ = serde_json::Deserializer::from_str(text).deserialize_map(reader);
        head
    }

    fn is_complete(&self, needs_bench: bool) -> bool {
        self.schema.is_some() && (self.bench.is_some() || !needs_bench)
    }
}

struct HeadReader<'a> {
    head: &'a mut Head,
    needs_bench: bool,
}

impl<'de> Visitor<'de> for HeadReader<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        while !self.head.is_complete(self.needs_bench)
            && let Some(key) = map.next_key::<Cow<'_, str>>()?
        {
            match key.as_ref() {
                "schema" => self.head.schema = map.next_value()?,
                "bench" => self.head.bench = map.next_value()?,
                _ => {
                    map.next_value::<IgnoredAny>()?;
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::Head;

    #[test]
    fn only_the_start_is_read() {
        let read = |text: &str, needs_bench| {
            let head = Head::read_start(text, needs_bench);
            (head.schema, head.bench)
        };
        let (schema, bench) = (Some("x/1".to_owned()), Some("clock".to_owned()));
        assert_eq!(read(r#"{"schema": "x/1", not JSON"#, false), (schema.clone(), None));
        let sorted = r#"{"bench": "clock", "rows": [{"schema": "y/1"}], "schema": "x/1", not JSON"#;
        assert_eq!(read(sorted, true), (schema.clone(), bench));
        assert_eq!(read(r#"{"schema": "x/1"}"#, true), (schema, None));
        for other in ["", "[1]", "{}", r#"{"schema": 1}"#, r#"{"a": [1, "#] {
            assert_eq!(read(other, false), (None, None), "{other}");
        }
    }
}
