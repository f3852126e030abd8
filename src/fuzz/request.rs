//! Target for the requests that `osjitter monitor --listen` receives.

use cli::exit::{self, Error, usage};

use crate::fuzz::step_costs::StepCosts;
use crate::monitor::exposition::ExpositionFormat;
use crate::monitor::http::{Pages, Request, read_request, respond};

/// The pages of a monitor that watches nothing.
struct EmptyPages;

impl Pages for EmptyPages {
    fn metrics(&self, format: ExpositionFormat) -> Vec<u8> {
        format!("{format:?}").into_bytes()
    }

    fn check_health(&self) -> Result<(), String> {
        Ok(())
    }

    fn check_readiness(&self) -> Result<(), String> {
        Err("it is not".to_owned())
    }
}

/// Answers a request.
pub fn body(bytes: &[u8], costs: &StepCosts) -> exit::Result<()> {
    let read = costs.measure("read", || read_request(&mut &bytes[..]));
    let head = match read.map_err(|e| Error::usage(e.to_string()))? {
        Some(Request::Head(head)) => head,
        Some(Request::TooLong) => return Err(usage!("the header is too long")),
        None => return Err(usage!("the header has no end")),
    };
    let response = costs.measure("respond", || respond(&head, &EmptyPages));
    let text = String::from_utf8(response.to_bytes(false)).expect("a text");
    let (head, body) = text.split_once("\r\n\r\n").expect("a header");
    assert!(head.contains(&format!("Content-Length: {}\r\n", body.len())), "{head}");
    match head.lines().next() {
        Some("HTTP/1.1 200 OK") => Ok(()),
        status => Err(usage!("{status:?}")),
    }
}
