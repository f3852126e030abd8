//! Places in a text, as editors count them.

/// Line and column of what follows these bytes.
pub fn format_position(before: &[u8]) -> String {
    let line = before.iter().filter(|&&b| b == b'\n').count() + 1;
    let column = before.iter().rev().take_while(|&&b| b != b'\n').count() + 1;
    format!("line {line} column {column}")
}

#[cfg(test)]
mod tests {
    use super::format_position;

    #[test]
    fn places_are_counted_as_editors_do() {
        assert_eq!(format_position(b""), "line 1 column 1");
        assert_eq!(format_position(b"ab\ncd"), "line 2 column 3");
    }
}
