//! The trace event format (JSON) of Chrome, which ui.perfetto.dev opens.
//!
//! A file has processes, which have tracks. A track contains slices that do not overlap unless one
//! is within the other. Times are nanoseconds from an origin that the caller chooses.
//!
//! Source: "Trace Event Format", by the Chromium authors.

use std::fmt::{self, Write as _};

use serde_json::Value;

/// The maximum number of tracks for slices that overlap.
const MAX_LANES: usize = 8;

/// The arguments of an event, which the viewer lists when it is selected.
pub type EventArgs<'a> = &'a [(&'a str, Value)];

/// A file of events. Every process and track has a number of its own.
pub struct TraceEvents {
    json: String,
    processes: u32,
    tracks: u32,
}

#[derive(Clone, Copy)]
pub struct Process(u32);

#[derive(Clone, Copy)]
pub struct Track {
    process: Process,
    number: u32,
}

/// The field of an event that names its process.
impl fmt::Display for Process {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\"pid\":{}", self.0)
    }
}

/// The fields of an event that name its track.
impl fmt::Display for Track {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{},\"tid\":{}", self.process, self.number)
    }
}

impl TraceEvents {
    #[must_use]
    pub fn new() -> Self {
        let json = "{\"displayTimeUnit\":\"ns\",\"traceEvents\":[".to_owned();
        Self { json, processes: 0, tracks: 0 }
    }

    /// Adds a process, which the viewer shows below the previous ones.
    pub fn process(&mut self, name: &str) -> Process {
        self.processes += 1;
        let process = Process(self.processes);
        self.event("M", "process_name", &process, &[("name", name.into())]);
        let position = self.processes.into();
        self.event("M", "process_sort_index", &process, &[("sort_index", position)]);
        process
    }

    /// Adds a track, which the viewer shows below the previous ones of the process.
    pub fn track(&mut self, process: Process, name: &str) -> Track {
        self.tracks += 1;
        let track = Track { process, number: self.tracks };
        self.event("M", "thread_name", &track, &[("name", name.into())]);
        self.event("M", "thread_sort_index", &track, &[("sort_index", track.number.into())]);
        track
    }

    /// Adds a slice. If another slice of the track contains its start, that one must also contain
    /// its end.
    pub fn slice(
        &mut self,
        track: Track,
        name: &str,
        start_ns: i64,
        end_ns: i64,
        args: EventArgs<'_>,
    ) {
        let start = microseconds(start_ns);
        let duration = microseconds(end_ns.saturating_sub(start_ns));
        self.event("X", name, &format_args!("\"ts\":{start},\"dur\":{duration},{track}"), args);
    }

    /// Adds a mark on a track.
    pub fn instant(&mut self, track: Track, name: &str, at_ns: i64, args: EventArgs<'_>) {
        let at = microseconds(at_ns);
        self.event("i", name, &format_args!("\"s\":\"t\",\"ts\":{at},{track}"), args);
    }

    /// Adds the value of a counter, which the viewer draws as a curve.
    pub fn counter(&mut self, process: Process, name: &str, at_ns: i64, value: i64) {
        let at = microseconds(at_ns);
        let args = [("value", value.into())];
        self.event("C", name, &format_args!("\"ts\":{at},{process}"), &args);
    }

    /// Adds an event with the fields of its kind.
    fn event(&mut self, kind: &str, name: &str, fields: &dyn fmt::Display, args: EventArgs<'_>) {
        let separator = if self.json.ends_with('[') { "\n" } else { ",\n" };
        let name = Value::from(name);
        let _ = write!(self.json, "{separator}{{\"ph\":\"{kind}\",\"name\":{name},{fields}");
        for (i, (key, value)) in args.iter().enumerate() {
            let separator = if i == 0 { ",\"args\":{" } else { "," };
            let _ = write!(self.json, "{separator}{}:{value}", Value::from(*key));
        }
        self.json.push_str(if args.is_empty() { "}" } else { "}}" });
    }

    /// Returns the file.
    #[must_use]
    pub fn finish(self) -> String {
        self.json + "\n]}\n"
    }
}

impl Default for TraceEvents {
    fn default() -> Self {
        Self::new()
    }
}

/// Tracks for slices that may overlap: each slice goes to the first track that is free at its start.
pub struct Lanes {
    process: Process,
    name: String,
    /// Each track with the end of its last slice.
    lanes: Vec<(Track, i64)>,
}

impl Lanes {
    #[must_use]
    pub fn new(process: Process, name: &str) -> Self {
        Self { process, name: name.to_owned(), lanes: Vec::new() }
    }

    /// Adds a slice that starts no earlier than the previous one. If all tracks are taken, its end
    /// becomes a mark on the first one.
    ///
    /// Returns the track of the slice, in which others can be nested.
    pub fn slice(
        &mut self,
        events: &mut TraceEvents,
        name: &str,
        start_ns: i64,
        end_ns: i64,
        args: EventArgs<'_>,
    ) -> Option<Track> {
        let free = self.lanes.iter().position(|(_, end)| *end <= start_ns);
        let Some(lane) = free.or_else(|| self.add_lane(events)) else {
            events.instant(self.lanes[0].0, name, end_ns, args);
            return None;
        };
        let (track, end) = &mut self.lanes[lane];
        *end = end_ns;
        events.slice(*track, name, start_ns, end_ns, args);
        Some(*track)
    }

    /// Adds a mark to the first track.
    pub fn instant(
        &mut self,
        events: &mut TraceEvents,
        name: &str,
        at_ns: i64,
        args: EventArgs<'_>,
    ) {
        if self.lanes.is_empty() {
            self.add_lane(events);
        }
        events.instant(self.lanes[0].0, name, at_ns, args);
    }

    /// Adds a track. Returns its index, or `None` if there are too many.
    fn add_lane(&mut self, events: &mut TraceEvents) -> Option<usize> {
        let index = self.lanes.len();
        if index == MAX_LANES {
            return None;
        }
        let name =
            if index == 0 { self.name.clone() } else { format!("{}, overlapping", self.name) };
        self.lanes.push((events.track(self.process, &name), i64::MIN));
        Some(index)
    }
}

/// Formats nanoseconds as the microseconds of the format, without loss.
fn microseconds(ns: i64) -> String {
    let sign = if ns < 0 { "-" } else { "" };
    let ns = ns.unsigned_abs();
    format!("{sign}{}.{:03}", ns / 1_000, ns % 1_000)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(events: TraceEvents) -> Vec<Value> {
        let file: Value = serde_json::from_str(&events.finish()).unwrap();
        assert_eq!(file["displayTimeUnit"], "ns");
        file["traceEvents"].as_array().unwrap().clone()
    }

    #[test]
    fn empty_file_is_valid() {
        assert!(parse(TraceEvents::new()).is_empty());
    }

    #[test]
    fn nanoseconds_are_exact() {
        for (ns, text) in [(0, "0.000"), (1, "0.001"), (1_234_567, "1234.567"), (-1_005, "-1.005")]
        {
            assert_eq!(microseconds(ns), text);
        }
    }

    #[test]
    fn names_are_escaped() {
        let mut events = TraceEvents::new();
        let process = events.process("a \"loop\"\u{1b}[31m");
        let track = events.track(process, "ticks");
        events.slice(track, "x\\y", 5, 7, &[("key", "a\"b".into()), ("n", 3.into())]);
        let events = parse(events);
        assert_eq!(events[0]["args"]["name"], "a \"loop\"\u{1b}[31m");
        let slice = events.last().unwrap();
        assert_eq!((&slice["ph"], &slice["name"]), (&"X".into(), &"x\\y".into()));
        assert_eq!((slice["ts"].as_f64(), slice["dur"].as_f64()), (Some(0.005), Some(0.002)));
        assert_eq!((&slice["args"]["key"], &slice["args"]["n"]), (&"a\"b".into(), &3.into()));
    }

    #[test]
    fn overlapping_slices_have_separate_tracks() {
        let mut events = TraceEvents::new();
        let process = events.process("loop");
        let mut lanes = Lanes::new(process, "ticks");
        for (start, end) in [(0, 10), (5, 12), (10, 15), (11, 13)] {
            assert!(lanes.slice(&mut events, "tick", start, end, &[]).is_some());
        }
        for _ in 0..MAX_LANES {
            lanes.slice(&mut events, "tick", 14, 100, &[]);
        }
        let events = parse(events);
        let track = |event: &Value| event["tid"].as_u64().unwrap();
        let slices = events.iter().filter(|event| event["ph"] == "X");
        let tracks: Vec<u64> = slices.map(track).take(4).collect();
        assert_eq!(tracks, [1, 2, 1, 3]);
        let marks = events.iter().filter(|event| event["ph"] == "i");
        assert_eq!(marks.map(track).collect::<Vec<_>>(), [1], "the first track is still taken");
    }
}
