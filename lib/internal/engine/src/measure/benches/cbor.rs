//! Reads CBOR (RFC 8949), in which Criterion sends its messages.

use serde_json::{Map, Number, Value};

/// Maximum depth of arrays and maps within each other.
const MAX_DEPTH: u32 = 16;

/// Data that is not CBOR, or uses parts of it that Criterion does not.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("invalid CBOR at byte {0}")]
pub struct CborError(usize);

/// Parses a single value. A number that JSON cannot represent becomes null.
pub fn parse(bytes: &[u8]) -> Result<Value, CborError> {
    let mut reader = Reader { bytes, position: 0 };
    let value = reader.value(MAX_DEPTH)?;
    if reader.position == bytes.len() { Ok(value) } else { Err(reader.error()) }
}

struct Reader<'a> {
    bytes: &'a [u8],
    position: usize,
}

/// The first byte of an item with the argument that follows it.
struct Head {
    major_type: u8,
    /// The lower five bits of the first byte.
    info: u8,
    argument: u64,
}

impl Reader<'_> {
    fn error(&self) -> CborError {
        CborError(self.position)
    }

    fn take(&mut self, count: usize) -> Result<&[u8], CborError> {
        let error = self.error();
        let end = self.position.checked_add(count).ok_or(error)?;
        let taken = self.bytes.get(self.position..end).ok_or(error)?;
        self.position = end;
        Ok(taken)
    }

    fn head(&mut self) -> Result<Head, CborError> {
        let first = self.take(1)?[0];
        let (major_type, info) = (first >> 5, first & 0x1f);
        let argument = match info {
            0..=23 => u64::from(info),
            24..=27 => {
                let bytes = self.take(1 << (info - 24))?;
                bytes.iter().fold(0, |argument, byte| argument << 8 | u64::from(*byte))
            }
            _ => return Err(self.error()),
        };
        Ok(Head { major_type, info, argument })
    }

    fn value(&mut self, depth: u32) -> Result<Value, CborError> {
        let depth = depth.checked_sub(1).ok_or(self.error())?;
        let Head { major_type, info, argument } = self.head()?;
        // A count is not trusted, so nothing is reserved for it: each item takes at least a byte.
        match (major_type, info) {
            (0, _) => Ok(argument.into()),
            (1, _) => Ok(i64::try_from(argument).map_or(Value::Null, |n| (-1 - n).into())),
            (3, _) => Ok(Value::String(self.text(argument)?)),
            (4, _) => (0..argument).map(|_| self.value(depth)).collect(),
            (5, _) => {
                let mut map = Map::new();
                for _ in 0..argument {
                    let Value::String(key) = self.value(depth)? else { return Err(self.error()) };
                    map.insert(key, self.value(depth)?);
                }
                Ok(Value::Object(map))
            }
            (7, 20) => Ok(false.into()),
            (7, 21) => Ok(true.into()),
            (7, 22 | 23) => Ok(Value::Null),
            (7, 25) => Ok(number(half_to_f64(argument as u16))),
            (7, 26) => Ok(number(f32::from_bits(argument as u32).into())),
            (7, 27) => Ok(number(f64::from_bits(argument))),
            _ => Err(self.error()),
        }
    }

    fn text(&mut self, bytes: u64) -> Result<String, CborError> {
        let error = self.error();
        let bytes = self.take(usize::try_from(bytes).map_err(|_| error)?)?;
        String::from_utf8(bytes.to_vec()).map_err(|_| error)
    }
}

fn number(value: f64) -> Value {
    Number::from_f64(value).map_or(Value::Null, Value::Number)
}

/// Converts a half-precision number: 1 bit of sign, 5 of exponent, 10 of fraction.
fn half_to_f64(bits: u16) -> f64 {
    let fraction = f64::from(bits & 0x3ff);
    let size = match bits >> 10 & 0x1f {
        0 => fraction * 2f64.powi(-24),
        31 if fraction == 0.0 => f64::INFINITY,
        31 => f64::NAN,
        exponent => (1024.0 + fraction) * 2f64.powi(i32::from(exponent) - 25),
    };
    if bits >> 15 == 0 { size } else { -size }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn examples_of_the_standard_are_read() {
        // RFC 8949, appendix A.
        for (hex, expected) in [
            ("00", json!(0)),
            ("1903e8", json!(1000)),
            ("3863", json!(-100)),
            ("f93c00", json!(1.0)),
            ("f97bff", json!(65504.0)),
            ("f90001", json!(5.960_464_477_539_063e-8)),
            ("f9c400", json!(-4.0)),
            ("fa47c35000", json!(100_000.0)),
            ("fb3ff199999999999a", json!(1.1)),
            ("f97c00", json!(null)),
            ("f97e00", json!(null)),
            ("f5", json!(true)),
            ("f6", json!(null)),
            ("62c3bc", json!("ü")),
            ("8301820203820405", json!([1, [2, 3], [4, 5]])),
            ("a26161016162820203", json!({"a": 1, "b": [2, 3]})),
        ] {
            assert_eq!(parse(&bytes(hex)), Ok(expected), "{hex}");
        }
    }

    #[test]
    fn malformed_data_is_rejected() {
        for hex in [
            "", "18", "62c3", "62c328", "9b7fffffffffffffff00", "a10101", "1c", "9f01ff", "0000",
            "c000",
        ] {
            assert!(parse(&bytes(hex)).is_err(), "{hex}");
        }
        assert!(parse(&[0x81; 1000]).is_err());
    }

    fn bytes(hex: &str) -> Vec<u8> {
        let digits = hex.as_bytes().chunks(2);
        digits
            .map(|pair| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap())
            .collect()
    }
}
