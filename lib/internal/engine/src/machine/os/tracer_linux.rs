//! Recording of the timers, switches and waits of a whole machine on Linux, by tracepoints with
//! `perf_event_open`.

use std::collections::HashMap;
use std::ffi::{CStr, CString};
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::time::{ClockId, DynamicClockId};

use crate::machine::os::calls::WAITS;
use crate::machine::os::events::{
    TRACEPOINTS, TraceEvent, TraceReader, TraceScope, TracepointLayout,
};
use crate::machine::os::imp::{ClockOffsets, clock_offsets, dynamic_clock_ns};
use crate::machine::os::not_available::{NotAvailable, Obstacle};
use crate::machine::os::perf::{self, Attributes, Ring};
use crate::machine::os::ring::COMM;

const TRACEPOINT: u32 = 2;
const SAMPLE_RAW: u64 = 1 << 10;
const TASK: u64 = 1 << 13;
const IOC_SET_OUTPUT: u64 = 0x2405;
/// Number of the ioctl on architectures with the common numbering.
const IOC_SET_FILTER: u64 = 0x4008_2406;
/// Sizes of a CPU's ring to try, in pages.
const RING_PAGES: [usize; 5] = [1024, 256, 64, 16, 4];
/// Requirements of tracing.
const NEEDS: &str = "root, or CAP_PERFMON with a tracefs that may be read";

/// Recorder of the events of all CPUs.
#[derive(Debug)]
pub struct Tracer {
    cpus: Vec<Cpu>,
    layouts: Vec<TracepointLayout>,
    bytes: u64,
}

#[derive(Debug)]
struct Cpu {
    ring: Ring,
    reader: TraceReader,
    events: Vec<File>,
}

impl Tracer {
    /// Opens the tracepoints of all CPUs. Recording is off.
    ///
    /// # Errors
    ///
    /// Returns an error if a permission is missing or the kernel lacks a tracepoint.
    pub fn open(scope: TraceScope) -> Result<Self, NotAvailable> {
        if cfg!(target_pointer_width = "32") {
            let needs = "a 64-bit system";
            return Err(NotAvailable { what: "tracing", obstacle: None, needs });
        }
        let events = events_directory()?;
        let mut layouts = Vec::with_capacity(TRACEPOINTS.len());
        for (path, fields) in TRACEPOINTS {
            layouts.push(read_layout(&events.join(path).join("format"), fields)?);
        }
        let filters = filters();
        let mut cpus = Vec::new();
        for cpu in online_cpus() {
            let opened = Cpu::open(cpu, scope, &layouts, &filters);
            let name = "perf_event_open";
            let failed = |error| refused(Obstacle::Call { name, error: Arc::new(error) });
            cpus.push(opened.map_err(failed)?);
        }
        Ok(Self { cpus, layouts, bytes: 0 })
    }

    /// Starts or stops recording.
    pub fn record(&self, on: bool) {
        let set = |cpu: &Cpu| {
            cpu.events.iter().chain([&cpu.ring.event]).for_each(|event| perf::record(event, on))
        };
        self.cpus.iter().for_each(set);
    }

    /// Appends the events that were recorded since the last call. The events of a CPU are in order,
    /// and the CPUs follow one another.
    pub fn drain(&mut self, events: &mut Vec<TraceEvent>) {
        for cpu in &mut self.cpus {
            let bytes = cpu.ring.drain();
            self.bytes += bytes.len() as u64;
            cpu.reader.read(&bytes, &self.layouts, events);
        }
    }

    /// Stops recording and appends the remaining events.
    ///
    /// Returns the number of events that the kernel counted but neither recorded nor reported as
    /// lost. Some virtual machines lose records of interrupts in this way, on some of their CPUs.
    pub fn finish(&mut self, events: &mut Vec<TraceEvent>) -> u64 {
        self.record(false);
        self.drain(events);
        self.cpus.iter().map(Cpu::unrecorded_events).sum()
    }

    /// Returns the number of bytes recorded so far.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }
}

impl Cpu {
    /// Returns the number of events that were counted, but neither recorded nor reported as lost.
    fn unrecorded_events(&self) -> u64 {
        let counts = self.events.iter().map(|event| perf::count(event).unwrap_or(0));
        let counted: u64 = counts.sum();
        counted.saturating_sub(self.reader.samples).saturating_sub(self.reader.lost)
    }

    fn open(
        cpu: usize,
        scope: TraceScope,
        layouts: &[TracepointLayout],
        filters: &[Option<CString>],
    ) -> io::Result<Self> {
        let number = i32::try_from(cpu).unwrap_or(i32::MAX);
        // This event records the start, end and name of threads. All others write into its ring.
        let attributes = common_attributes();
        let (kind, config, flags) = (perf::SOFTWARE, perf::DUMMY, attributes.flags | COMM | TASK);
        let ring = Ring::map(
            perf::open(Attributes { kind, config, flags, ..attributes }, -1, number)?,
            &RING_PAGES,
        )?;
        let mut events = Vec::new();
        for ((layout, filter), (path, _)) in layouts.iter().zip(filters).zip(TRACEPOINTS) {
            if scope.includes(path) {
                events.push(open_tracepoint(number, layout, filter.as_deref(), &ring)?);
            }
        }
        Ok(Self { ring, reader: TraceReader::default(), events })
    }
}

/// Returns the attributes that all events share.
fn common_attributes() -> Attributes {
    Attributes {
        sample_type: perf::SAMPLE_TID | perf::SAMPLE_TIME | perf::SAMPLE_CPU | SAMPLE_RAW,
        flags: perf::DISABLED | perf::SAMPLE_ID_ALL,
        ..Attributes::default()
    }
}

/// Opens the event of a tracepoint on a CPU, whose records go to `ring`.
fn open_tracepoint(
    cpu: libc::c_int,
    layout: &TracepointLayout,
    filter: Option<&CStr>,
    ring: &Ring,
) -> io::Result<File> {
    let attributes =
        Attributes { kind: TRACEPOINT, config: layout.id, sample_period: 1, ..common_attributes() };
    let event = perf::open(attributes, -1, cpu)?;
    // SAFETY: both descriptors are open as long as their files; the request takes a number.
    let result =
        unsafe { libc::ioctl(event.as_raw_fd(), IOC_SET_OUTPUT as _, ring.event.as_raw_fd()) };
    if result != 0 {
        return Err(io::Error::last_os_error());
    }
    if let Some(filter) = filter {
        // SAFETY: the descriptor is open; the string ends in a zero byte and is only read. Without
        // the filter there are more records, so that a refusal does no harm.
        unsafe { libc::ioctl(event.as_raw_fd(), IOC_SET_FILTER as _, filter.as_ptr()) };
    }
    Ok(event)
}

/// Returns the filters that the kernel applies. They exclude system calls that wait for no timer,
/// and the ticks of the kernel.
fn filters() -> [Option<CString>; TRACEPOINTS.len()] {
    let calls: Vec<String> = WAITS.iter().map(|(call, _)| format!("id == {call}")).collect();
    let calls = CString::new(calls.join(" || ")).ok();
    let names =
        kernel_functions(&["tick_nohz_handler", "tick_sched_timer", "hrtick", "dl_task_timer"]);
    let ticks: Vec<String> =
        names.keys().map(|address| format!("function != 0x{address:x}")).collect();
    let ticks = CString::new(ticks.join(" && ")).ok().filter(|text| !text.is_empty());
    let mut filters = [const { None }; TRACEPOINTS.len()];
    for (filter, (path, _)) in filters.iter_mut().zip(TRACEPOINTS) {
        *filter = match path {
            "raw_syscalls/sys_enter" | "raw_syscalls/sys_exit" => calls.clone(),
            "timer/hrtimer_start" | "timer/hrtimer_expire_entry" => ticks.clone(),
            _ => None,
        };
    }
    filters
}

/// Finds the directory of the tracepoints.
fn events_directory() -> Result<PathBuf, NotAvailable> {
    let mut denied = None;
    for place in ["/sys/kernel/tracing", "/sys/kernel/debug/tracing"] {
        match std::fs::read_dir(Path::new(place).join("events")) {
            Ok(_) => return Ok(Path::new(place).join("events")),
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                let (file, error) = (PathBuf::from(place), Arc::new(error));
                denied = Some(refused(Obstacle::UnreadableFile { file, error }))
            }
            Err(_) => {}
        }
    }
    let needs = "`mount -t tracefs tracefs /sys/kernel/tracing`, as root";
    let unmounted = NotAvailable { what: "tracing", obstacle: Some(Obstacle::NoTracefs), needs };
    Err(denied.unwrap_or(unmounted))
}

/// Reads the format of a tracepoint.
fn read_layout(file: &Path, fields: &[&str]) -> Result<TracepointLayout, NotAvailable> {
    let file = file.to_owned();
    let text = match std::fs::read_to_string(&file) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return Err(missing(Obstacle::MissingFile(file)));
        }
        Err(error) => {
            return Err(refused(Obstacle::UnreadableFile { file, error: Arc::new(error) }));
        }
    };
    TracepointLayout::parse(&text, fields)
        .map_err(|error| missing(Obstacle::Layout { file, error }))
}

fn refused(obstacle: Obstacle) -> NotAvailable {
    NotAvailable { what: "tracing", obstacle: Some(obstacle), needs: NEEDS }
}

fn missing(obstacle: Obstacle) -> NotAvailable {
    let needs = "a kernel with tracepoints of timers, switches and system calls";
    NotAvailable { what: "tracing", obstacle: Some(obstacle), needs }
}

/// Returns whether threads have the same numbers here as in the records of the kernel. This is
/// usually not the case in a container.
pub fn has_kernel_thread_ids() -> bool {
    /// The initial namespace, whose number is fixed.
    const INITIAL_NAMESPACE: &str = "pid:[4026531836]";
    std::fs::read_link("/proc/self/ns/pid").is_ok_and(|link| link == Path::new(INITIAL_NAMESPACE))
}

/// Returns the CPUs that are online.
pub fn online_cpus() -> Vec<usize> {
    let text = std::fs::read_to_string("/sys/devices/system/cpu/online").unwrap_or_default();
    let cpus = super::cpu_list(&text);
    if cpus.is_empty() { super::affinity().unwrap_or_else(|| vec![0]) } else { cpus }
}

/// Returns the addresses of the kernel functions with these names, unless the kernel hides them.
pub fn kernel_functions(names: &[&str]) -> HashMap<u64, String> {
    let text = std::fs::read_to_string("/proc/kallsyms").unwrap_or_default();
    let mut functions = HashMap::new();
    for (address, name) in text.lines().filter_map(parse_symbol) {
        if address != 0 && names.contains(&name) {
            functions.insert(address, name.to_owned());
        }
    }
    functions
}

/// Parses the address and the name of a kernel function.
fn parse_symbol(line: &str) -> Option<(u64, &str)> {
    let mut words = line.split_whitespace();
    let (address, name) = (words.next()?, words.nth(1)?);
    Some((u64::from_str_radix(address, 16).ok()?, name))
}

/// Returns the offsets of the other clocks on which timers can be set from `CLOCK_MONOTONIC`.
pub fn clocks_ahead_ns() -> Vec<i64> {
    /// Minimum offset of a different clock. A smaller one is the time between two readings.
    const MIN_OFFSET_NS: i64 = 1_000_000;
    let realtime = DynamicClockId::Known(ClockId::Realtime);
    let ClockOffsets { monotonic_ns, boottime_ns } = clock_offsets();
    let clocks = [(realtime, 0), (DynamicClockId::Boottime, boottime_ns), (DynamicClockId::Tai, 0)];
    let mut offsets = Vec::new();
    for (clock, offset_ns) in clocks {
        let ahead_ns = ahead_of_monotonic_ns(clock);
        offsets.extend(ahead_ns.map(|ahead_ns| ahead_ns - offset_ns + monotonic_ns));
    }
    offsets.retain(|ahead| ahead.abs() > MIN_OFFSET_NS);
    offsets
}

fn ahead_of_monotonic_ns(clock: DynamicClockId<'_>) -> Option<i64> {
    let monotonic = || signed_clock_ns(DynamicClockId::Known(ClockId::Monotonic));
    let read = || Some((monotonic()?, signed_clock_ns(clock)?, monotonic()?));
    let (before, other, after) = tach::read_paired(read).value?;
    Some(other - before.midpoint(after))
}

fn signed_clock_ns(clock: DynamicClockId<'_>) -> Option<i64> {
    i64::try_from(dynamic_clock_ns(clock).ok()?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::os::events::TraceEventKind;

    /// Sleeps on a new thread, and counts the timers that this thread starts.
    ///
    /// The kernel may start other timers for the thread, such as that of its bandwidth control.
    /// Timers of sleeps are identified by their time.
    #[allow(clippy::disallowed_methods, reason = "a sleep is what sets a timer")]
    fn sleep(tracer: &mut Tracer, events: &mut Vec<TraceEvent>) -> usize {
        const SLEEP_NS: i64 = 2_000_000;
        const SECOND_NS: i64 = 1_000_000_000;
        let asleep = || {
            // SAFETY: it takes nothing, and returns a number.
            let thread = u32::try_from(unsafe { libc::gettid() }).unwrap();
            let before_ns =
                i64::try_from(super::super::thread_stats::monotonic_ns().expect("a clock"))
                    .unwrap();
            std::thread::sleep(std::time::Duration::from_nanos(SLEEP_NS.unsigned_abs()));
            (thread, before_ns)
        };
        let (sleeper, before_ns) =
            std::thread::scope(|scope| scope.spawn(asleep).join()).expect("it sleeps");
        let from = events.len();
        tracer.drain(events);
        let due = before_ns + SLEEP_NS..before_ns + SECOND_NS;
        let is_sleep = |e: &&TraceEvent| match e.kind {
            TraceEventKind::Start { soft_ns, hard_ns, .. } => {
                e.thread == sleeper && due.contains(&soft_ns) && hard_ns >= soft_ns
            }
            _ => false,
        };
        events[from..].iter().filter(is_sleep).count()
    }

    #[test]
    fn timers_of_sleeps_are_recorded() {
        let mut tracer = match Tracer::open(TraceScope::Waits) {
            Ok(tracer) => tracer,
            Err(why) => return assert!(why.to_string().starts_with("tracing: "), "{why}"),
        };
        tracer.record(true);
        let mut events = Vec::new();
        let seen: usize = (0..50).map(|_| sleep(&mut tracer, &mut events)).sum();
        let unrecorded = tracer.finish(&mut events);
        let counted: u64 =
            tracer.cpus.iter().flat_map(|cpu| &cpu.events).map(|e| perf::count(e).unwrap()).sum();
        let read: u64 = tracer.cpus.iter().map(|cpu| cpu.reader.samples).sum();
        assert!(
            read <= counted && counted - read >= unrecorded,
            "{counted} counted, {read} read, {unrecorded} not recorded"
        );
        let index =
            TRACEPOINTS.iter().position(|(path, _)| *path == "timer/hrtimer_start").unwrap();
        let starts: u64 =
            tracer.cpus.iter().map(|cpu| perf::count(&cpu.events[index]).unwrap()).sum();
        let read =
            events.iter().filter(|e| matches!(e.kind, TraceEventKind::Start { .. })).count() as u64;
        // If the kernel recorded all timers that it counted, those of the sleeps are among them.
        assert!(
            seen > 0 || read < starts,
            "{starts} counted, {read} read, none of them the sleepers'"
        );
        assert_eq!(tracer.bytes() > 0, !events.is_empty());
    }
}
