//! The formats of the metrics, and HTTP content negotiation between them.

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExpositionFormat {
    /// The older text format of Prometheus, used unless the client prefers another one.
    Text,
    OpenMetrics,
    /// The format with native histograms.
    Protobuf,
}

impl ExpositionFormat {
    pub fn content_type(self) -> &'static str {
        match self {
            Self::Text => "text/plain; version=0.0.4; charset=utf-8",
            Self::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
            Self::Protobuf => {
                "application/vnd.google.protobuf; proto=io.prometheus.client.MetricFamily; encoding=delimited"
            }
        }
    }

    /// Selects the supported format with the highest weight in an `Accept` header, the first of
    /// equals. Falls back to text, which is more useful than an error.
    pub fn negotiate(accept: &str) -> Self {
        let (mut best, mut best_weight) = (Self::Text, 0.0);
        for range in accept.split(',') {
            let range = MediaRange::parse(range);
            if let Some(format) = range.format()
                && range.weight > best_weight
            {
                (best, best_weight) = (format, range.weight);
            }
        }
        best
    }
}

/// A media range of an `Accept` header, with the parameters that select a format.
struct MediaRange<'a> {
    media_type: &'a str,
    weight: f64,
    version: Option<&'a str>,
    proto: Option<&'a str>,
    encoding: Option<&'a str>,
}

impl<'a> MediaRange<'a> {
    fn parse(text: &'a str) -> Self {
        let mut parts = text.split(';').map(str::trim);
        let media_type = parts.next().unwrap_or_default();
        let mut range =
            Self { media_type, weight: 1.0, version: None, proto: None, encoding: None };
        for (name, value) in parts.filter_map(|part| part.split_once('=')) {
            let (name, value) = (name.trim(), value.trim().trim_matches('"'));
            match name {
                _ if name.eq_ignore_ascii_case("q") => range.weight = value.parse().unwrap_or(0.0),
                _ if name.eq_ignore_ascii_case("version") => range.version = Some(value),
                _ if name.eq_ignore_ascii_case("proto") => range.proto = Some(value),
                _ if name.eq_ignore_ascii_case("encoding") => range.encoding = Some(value),
                _ => {}
            }
        }
        range
    }

    /// Returns the supported format that the range matches.
    fn format(&self) -> Option<ExpositionFormat> {
        let is = |name: &str| self.media_type.eq_ignore_ascii_case(name);
        if is("application/vnd.google.protobuf") {
            let is_family = self.proto == Some("io.prometheus.client.MetricFamily");
            let is_delimited = matches!(self.encoding, None | Some("delimited"));
            (is_family && is_delimited).then_some(ExpositionFormat::Protobuf)
        } else if is("application/openmetrics-text") {
            matches!(self.version, None | Some("1.0.0" | "0.0.1"))
                .then_some(ExpositionFormat::OpenMetrics)
        } else if is("text/plain") {
            matches!(self.version, None | Some("0.0.4")).then_some(ExpositionFormat::Text)
        } else {
            (is("text/*") || is("*/*")).then_some(ExpositionFormat::Text)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::ExpositionFormat::{OpenMetrics, Protobuf, Text};
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn preferred_supported_format_is_selected() {
        let protobuf = "application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=delimited";
        for (accept, format) in [
            ("", Text),
            ("*/*", Text),
            ("text/html,application/xhtml+xml", Text),
            // Prometheus 2.42 with native histograms, 2.53, and 3.8.
            (
                &format!(
                    "{protobuf},application/openmetrics-text;version=1.0.0;q=0.8,text/plain;version=0.0.4;q=0.5,*/*;q=0.1"
                ),
                Protobuf,
            ),
            (
                &format!(
                    "application/openmetrics-text;version=1.0.0;q=0.5,{protobuf};q=0.4,text/plain;version=0.0.4;q=0.3,*/*;q=0.2"
                ),
                OpenMetrics,
            ),
            (
                "application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.6,text/plain;version=1.0.0;q=0.4,*/*;q=0.2",
                OpenMetrics,
            ),
            // Unsupported: another version, another message, the text encoding of a message.
            ("application/openmetrics-text;version=2.0.0,text/plain;q=0.1", Text),
            ("application/vnd.google.protobuf,application/openmetrics-text;q=0.1", OpenMetrics),
            ("application/vnd.google.protobuf;proto=other;encoding=delimited", Text),
            (&protobuf.replace("delimited", "compact-text"), Text),
            ("Application/OpenMetrics-Text; Version=\"1.0.0\" ; Q=1", OpenMetrics),
            ("application/openmetrics-text;q=0,text/plain;q=0.1", Text),
            ("application/openmetrics-text;q=NaN", Text),
            ("application/openmetrics-text;q=", Text),
        ] {
            assert_eq!(ExpositionFormat::negotiate(accept), format, "{accept}");
        }
    }

    proptest! {
        #[test]
        fn arbitrary_headers_do_not_panic(accept in "[ -~]{0,80}") {
            let _ = ExpositionFormat::negotiate(&accept);
        }
    }
}
