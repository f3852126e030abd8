//! Files of bins, ours or an engine's, and directories of them: added up host by host as they come,
//! and shown as a report.

use std::collections::{BTreeMap, HashSet};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use cli::exit::{Error, Result, usage};
use cli::units;
use files::bins::{
    BinsError, Cells, Fold, ID, INSTANCES, Interval, Key, LOAD, SCHEMA, join, kind, read_bins,
    read_intervals, stamp,
};
use files::report::{MAX_COUNT, Report, Status, Subject, Warning};

use crate::file_io;
use crate::interop::imported::{
    Imported, UNKNOWN_TIME, clock, no_cost, not_too_many, subject, unknown_host, warning,
};
use crate::interop::pair::{ENDINGS, KINDS, part, place};

/// Directories below a directory, at most.
const DEEPEST: usize = 16;
/// Hosts whose medians are ranked, at most.
const MAX_RANKED: usize = 10_000;

/// The files of a pair that are there: bins, and intervals.
type Pairs = BTreeMap<PathBuf, [Option<PathBuf>; 2]>;

/// Intervals of any number of files, added up over time for each host, subject and set of labels.
pub struct Fleet {
    /// In order of what they are of.
    pub intervals: Vec<Interval>,
    /// How many there were.
    count: usize,
    /// Of these, how many have no row of their own.
    without_facts: usize,
    /// How many more have a row, and no bins: what wrote them was cut off.
    cut: usize,
}

/// Whether a path is a file of bins by its name, or a directory that may have some.
pub fn is_one(path: &Path) -> bool {
    part(path).is_some() || (path.is_dir() && !file_io::resolved(path).is_file())
}

impl Fleet {
    /// Reads files and directories; a file that is there twice is read once, and one that is no
    /// file of bins is left out.
    ///
    /// # Errors
    /// There is none in a directory, one is damaged, or an interval comes twice.
    pub fn read<P: AsRef<Path>>(paths: &[P]) -> Result<Self> {
        let mut pairs = Pairs::new();
        for path in paths.iter().map(AsRef::as_ref) {
            let before = pairs.len();
            if path.is_dir() {
                collect(path, &mut pairs, 0)?;
                if pairs.len() == before {
                    return Err(usage!(
                        "{}: neither report.json nor *.bins.csv is in it",
                        path.display()
                    ));
                }
            } else if let Some((pair, given, _)) = part(path) {
                let of = |kind| {
                    if kind == given { Some(path.to_path_buf()) } else { beside(&pair, kind) }
                };
                let files = KINDS.map(of);
                pairs.insert(pair, files);
            }
        }
        let mut sum = Sum::default();
        for [bins, beside] in pairs.values() {
            let rows = |path: &Option<PathBuf>, read: Read| {
                path.as_deref().map_or(Ok(Vec::new()), |path| rows(path, read))
            };
            let (bins_read, beside_read) = (rows(bins, read_bins)?, rows(beside, read_intervals)?);
            let at = bins
                .as_ref()
                .or(beside.as_ref())
                .map_or(String::new(), |path| path.display().to_string());
            let joined = join(bins_read, beside_read).map_err(|e| usage!("{at}: {e}"))?;
            joined.iter().try_for_each(|interval| sum.add(interval)).map_err(|e| e.context(&at))?;
        }
        let one = paths.first().filter(|_| paths.len() == 1);
        sum.finished().map_err(|e| {
            one.map_or_else(
                || Error::usage(e.to_string()),
                |path| usage!("{}: {e}", path.as_ref().display()),
            )
        })
    }

    /// Reads one of the files as text.
    ///
    /// # Errors
    /// As [`Fleet::read`].
    pub fn parse(text: &str) -> Result<Self> {
        let read = if kind(text) == Some(Cells::Intervals) {
            read_intervals(text)
        } else {
            read_bins(text)
        };
        let mut sum = Sum::default();
        read.map_err(|e| usage!("{e}"))?.iter().try_for_each(|interval| sum.add(interval))?;
        sum.finished()
    }

    /// All that `group` makes alike, whatever its time.
    ///
    /// # Errors
    /// More ticks than can be counted.
    pub fn added(&self, group: impl Fn(&mut Key)) -> Result<Vec<Interval>> {
        let mut fold = Fold::default();
        self.intervals.iter().for_each(|interval| fold.add(interval, &group));
        let all = fold.finish();
        let ticks = |i: &Interval| i.facts.as_ref().map_or(0, |facts| facts.ticks).max(i.count());
        match all.iter().find(|interval| ticks(interval) > MAX_COUNT) {
            Some(over) => Err(usage!("{}: more than {MAX_COUNT} ticks together", over.key)),
            None => Ok(all),
        }
    }

    /// All hosts together.
    ///
    /// # Errors
    /// More subjects than a report has, or more ticks than can be counted.
    pub fn report(&self) -> Result<Report> {
        let all = self.added(shown)?;
        not_too_many("subjects", all.len())?;
        Ok(report(&all, self.warnings()))
    }

    /// Each host alone, by name; none, where they are too many to be set side by side.
    pub fn hosts(&self) -> Vec<(&str, Report)> {
        let mut hosts: BTreeMap<&str, Fold> = BTreeMap::new();
        for interval in &self.intervals {
            hosts.entry(&interval.key.host).or_default().add(interval, shown);
        }
        if hosts.len() > MAX_RANKED {
            return Vec::new();
        }
        hosts
            .into_iter()
            .map(|(host, intervals)| (host, report(&intervals.finish(), Vec::new())))
            .collect()
    }

    fn warnings(&self) -> Vec<Warning> {
        let hosts: HashSet<&str> =
            self.intervals.iter().map(|interval| interval.key.host.as_str()).collect();
        let width = self.intervals.iter().map(|i| i.binning.width_percent()).fold(0.0, f64::max);
        let of = |n: usize, what: &str| format!("{n} {what}{}", if n == 1 { "" } else { "s" });
        let (intervals, hosts) = (of(self.count, "interval"), of(hosts.len(), "host"));
        let mut warnings = vec![
            warning(
                "import-bins",
                format!(
                    "{intervals} of {hosts}, added up bin by bin: a percentile is the upper end of its bin, at most \
                     {width:.2} % above the exact one. Bins have no order: no jitter between ticks, no rounds, no \
                     confidence intervals."
                ),
                "report.json of osjitter run keeps every sample.",
            ),
            no_cost("a file of bins without cpu_ns"),
        ];
        if self
            .intervals
            .iter()
            .all(|i| i.facts.as_ref().is_some_and(|facts| facts.cpu_ns.is_some()))
        {
            warnings.pop();
        }
        if self.without_facts > 0 {
            warnings.push(warning(
                "import-bins-alone",
                format!(
                    "{} without a row in an .intervals file: skipped ticks are not known, missed ones only where a \
                     whole bin is as late as a period, the largest only to its bin.",
                    of(self.without_facts, "interval")
                ),
                "Keep both files of a pair together.",
            ));
        }
        if self.cut > 0 {
            warnings.push(warning(
                "import-bins-cut",
                format!("{} left out: ticks came, and there are no bins.", of(self.cut, "interval")),
                "A recorder that is killed between its two files leaves one; or the .bins file is missing.",
            ));
        }
        if self
            .intervals
            .iter()
            .any(|interval| interval.rows().next().is_some_and(|(bin, _)| bin.lower < 0))
        {
            warnings.push(warning(
                "import-bins-early",
                "Some ticks came before their deadline; how early is not kept, and is shown as 1 ns.",
                "A tick that is early is a bug of its timer or its clock.",
            ));
        }
        warnings
    }
}

/// What a table shows apart: hosts and other labels are added up.
fn shown(key: &mut Key) {
    key.host.clear();
    key.labels = key.labels.only(&[LOAD, INSTANCES, ID]);
}

type Read = fn(&str) -> std::result::Result<Vec<Interval>, BinsError>;

fn rows(path: &Path, read: Read) -> Result<Vec<Interval>> {
    let text = if path.extension().is_some_and(|ending| ending == "parquet") {
        parquet(path).map_err(|e| e.context(path.display()))?
    } else {
        file_io::read_text(path)?
    };
    read(&text).map_err(|e| usage!("{}: {e}", path.display()))
}

#[cfg(feature = "parquet")]
fn parquet(path: &Path) -> Result<String> {
    crate::render::parquet::read_as_csv(path, file_io::MAX_FILE)
}

#[cfg(not(feature = "parquet"))]
fn parquet(_: &Path) -> Result<String> {
    Err(Error::usage(crate::interop::pair::NO_PARQUET))
}

/// A file of a pair, in the first ending that is there.
fn beside(pair: &Path, kind: &str) -> Option<PathBuf> {
    ENDINGS.into_iter().map(|ending| place(pair, kind, ending)).find(|path| path.is_file())
}

/// Adds the pairs below a directory.
fn collect(directory: &Path, pairs: &mut Pairs, depth: usize) -> Result<()> {
    let unread = |e: std::io::Error| usage!("cannot read {}: {e}", directory.display());
    for entry in std::fs::read_dir(directory).map_err(unread)? {
        let entry = entry.map_err(unread)?;
        let path = entry.path();
        // Not through links: they may lead in a circle.
        if entry.file_type().map_err(unread)?.is_dir() {
            if depth < DEEPEST {
                collect(&path, pairs, depth + 1)?;
            }
        } else if let Some((pair, ..)) = part(&path).filter(|_| path.is_file()) {
            let files = KINDS.map(|kind| beside(&pair, kind));
            pairs.insert(pair, files);
        }
    }
    Ok(())
}

#[derive(Default)]
struct Sum {
    fold: Fold,
    seen: HashSet<u64>,
    count: usize,
    without_facts: usize,
    cut: usize,
}

impl Sum {
    fn add(&mut self, interval: &Interval) -> Result<()> {
        if interval.bins.is_empty() && interval.facts.as_ref().is_some_and(|facts| facts.came() > 0)
        {
            self.cut += 1;
            return Ok(());
        }
        // A hash, not the key: months of hosts are millions of intervals.
        let mut hasher = DefaultHasher::new();
        interval.key.hash(&mut hasher);
        if !self.seen.insert(hasher.finish()) {
            return Err(usage!(
                "{} is in another file, too: give each interval once",
                interval.key
            ));
        }
        self.count += 1;
        self.without_facts += usize::from(interval.facts.is_none());
        self.fold.add(interval, |_| ());
        Ok(())
    }

    fn finished(self) -> Result<Fleet> {
        let (count, without_facts, cut) = (self.count, self.without_facts, self.cut);
        if count == 0 {
            let why = if cut > 0 {
                "the rows of its .intervals files have no bins beside them"
            } else {
                "no interval is in it"
            };
            return Err(usage!("nothing to show: {why}"));
        }
        Ok(Fleet { intervals: self.fold.finish(), count, without_facts, cut })
    }
}

/// One subject for each interval.
fn report(intervals: &[Interval], warnings: Vec<Warning>) -> Report {
    let start = intervals.iter().map(|interval| interval.key.start_us).min().flatten();
    let end = |key: &Key| Some(key.start_us?.saturating_add(key.duration_ns / 1_000));
    let last = intervals.iter().filter_map(|interval| end(&interval.key)).max();
    let imported = Imported {
        tool: SCHEMA,
        version: String::new(),
        started_utc: start.map_or_else(|| UNKNOWN_TIME.to_owned(), stamp),
        duration_ns: last
            .zip(start)
            .map_or(0, |(last, start)| last.saturating_sub(start).saturating_mul(1_000)),
        host: unknown_host(),
        clock: clock("unknown", 0),
        warnings,
        subjects: intervals.iter().map(of).collect(),
    };
    imported.report()
}

fn of(interval: &Interval) -> Subject {
    let key = &interval.key;
    let (load, instances) = (key.labels.get(LOAD), key.labels.get(INSTANCES));
    let mut id = key.subject.clone();
    id.extend(instances.map(|n| format!("*{n}")));
    if key.period_ns > 0 {
        id += &format!("@{}", units::format_exact_duration(Duration::from_nanos(key.period_ns)));
    }
    if !key.runtime.is_empty() {
        id += &format!("/{}", key.runtime);
    }
    id.extend(load.map(|load| format!("+{load}")));
    id.extend(key.labels.get(ID).map(|id| format!("#{id}")));
    let mut subject = subject(id, &key.subject, Some(key.period_ns));
    subject.runtime = Some(key.runtime.clone()).filter(|runtime| !runtime.is_empty());
    subject.load = load.map(str::to_owned);
    subject.instances = instances.and_then(|n| n.parse().ok()).filter(|n| *n > 0).unwrap_or(1);
    subject.summary = interval.summary();
    match &subject.summary {
        Some(_) => {
            subject.histogram = Some(interval.histogram());
            subject.status = Status::Measured;
        }
        None => subject.status = Status::Failed { reason: "no tick came".to_owned() },
    }
    subject
}
