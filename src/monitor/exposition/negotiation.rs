//! In which form somebody wants the metrics: HTTP's content negotiation.

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// Prometheus's older text: for whoever does not say.
    Text,
    OpenMetrics,
    /// With native histograms.
    Protobuf,
}

impl Form {
    pub fn content_type(self) -> &'static str {
        match self {
            Self::Text => "text/plain; version=0.0.4; charset=utf-8",
            Self::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
            Self::Protobuf => {
                "application/vnd.google.protobuf; proto=io.prometheus.client.MetricFamily; encoding=delimited"
            }
        }
    }

    /// What an `Accept` header likes best of what there is, the first of equals. One that knows
    /// none of it gets text: that is of more use than a refusal.
    pub fn asked(accept: &str) -> Self {
        let mut best = (0.0, Self::Text);
        for range in accept.split(',') {
            let (form, weight) = Self::of_range(range);
            if let Some(form) = form.filter(|_| weight > best.0) {
                best = (weight, form);
            }
        }
        best.1
    }

    /// A media range with its parameters and weight.
    fn of_range(range: &str) -> (Option<Self>, f64) {
        let mut parts = range.split(';').map(str::trim);
        let kind = parts.next().unwrap_or_default();
        let (mut weight, mut version, mut proto, mut encoding) = (1.0, None, None, None);
        for (name, value) in parts.filter_map(|part| part.split_once('=')) {
            let (name, value) = (name.trim(), value.trim().trim_matches('"'));
            match name {
                _ if name.eq_ignore_ascii_case("q") => weight = value.parse().unwrap_or(0.0),
                _ if name.eq_ignore_ascii_case("version") => version = Some(value),
                _ if name.eq_ignore_ascii_case("proto") => proto = Some(value),
                _ if name.eq_ignore_ascii_case("encoding") => encoding = Some(value),
                _ => {}
            }
        }
        let is = |name: &str| kind.eq_ignore_ascii_case(name);
        let form = if is("application/vnd.google.protobuf") {
            let family = proto == Some("io.prometheus.client.MetricFamily");
            (family && encoding.is_none_or(|encoding| encoding == "delimited"))
                .then_some(Self::Protobuf)
        } else if is("application/openmetrics-text") {
            matches!(version, None | Some("1.0.0" | "0.0.1")).then_some(Self::OpenMetrics)
        } else if is("text/plain") {
            matches!(version, None | Some("0.0.4")).then_some(Self::Text)
        } else {
            (is("text/*") || is("*/*")).then_some(Self::Text)
        };
        (form, weight)
    }
}

#[cfg(test)]
mod tests {
    use super::Form::{OpenMetrics, Protobuf, Text};
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn what_is_liked_best_is_given() {
        let protobuf = "application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=delimited";
        for (accept, form) in [
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
            // What we do not have: another version, another message, the text form of a message.
            ("application/openmetrics-text;version=2.0.0,text/plain;q=0.1", Text),
            ("application/vnd.google.protobuf,application/openmetrics-text;q=0.1", OpenMetrics),
            ("application/vnd.google.protobuf;proto=other;encoding=delimited", Text),
            (&protobuf.replace("delimited", "compact-text"), Text),
            ("Application/OpenMetrics-Text; Version=\"1.0.0\" ; Q=1", OpenMetrics),
            ("application/openmetrics-text;q=0,text/plain;q=0.1", Text),
            ("application/openmetrics-text;q=NaN", Text),
            ("application/openmetrics-text;q=", Text),
        ] {
            assert_eq!(Form::asked(accept), form, "{accept}");
        }
    }

    proptest! {
        #[test]
        fn no_header_is_too_strange(accept in "[ -~]{0,80}") {
            let _ = Form::asked(&accept);
        }
    }
}
