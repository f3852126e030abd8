//! Positions in a text.

/// Formats the line and column that follow these bytes, both counted from 1.
pub fn format_position(before: &[u8]) -> String {
    let line = before.iter().filter(|&&b| b == b'\n').count() + 1;
    let column = before.iter().rev().take_while(|&&b| b != b'\n').count() + 1;
    format!("line {line} column {column}")
}

#[cfg(test)]
mod tests {
    use super::format_position;

    #[test]
    fn lines_and_columns_start_at_one() {
        assert_eq!(format_position(b""), "line 1 column 1");
        assert_eq!(format_position(b"ab\ncd"), "line 2 column 3");
    }
}
