//! Reads files of bins, written by osjitter or by a query engine, and directories of them. The
//! intervals are added up per host while they are read, and converted to a report.

use std::collections::{BTreeMap, HashSet};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use cli::exit::{self, usage};
use cli::file_io;
use cli::file_io::{Destination, TextReader};
use cli::units;
use cli::words::pluralize;
use files::bins::{
    BinsError, Cells, Fold, ID, INSTANCES, Interval, Key, LOAD, SCHEMA, join, kind, read_bins,
    read_bins_from, read_intervals, read_intervals_from, stamp,
};
use files::report::{MAX_COUNT, Report, Status, Subject, Warning};

use crate::bins_directory::BinsSearch;
use crate::import_error::{DamagedFile, ImportReason, Result};
use crate::imported::{ImportedReport, check_count, clock, no_cost, subject};
use crate::pair::{BINS, ENDINGS, INTERVALS, file_path, output_files, split_path};

/// Code of the warning of a report that lacks files of bins.
pub const DAMAGE_WARNING: &str = "import-bins-damaged";
/// Code of the warning of a report that lacks intervals whose bins are missing.
pub const MISSING_BINS_WARNING: &str = "import-bins-cut";

/// Value of `run_id` in a row that [`Fleet::merge`] makes of intervals whose bins are missing.
const WITHOUT_BINS: &str = "without-bins";

/// Maximum number of hosts whose medians are ranked.
const MAX_RANKED: usize = 10_000;

/// The pairs by the path of their first file.
type Pairs = BTreeMap<PathBuf, PairFiles>;

/// The existing files of a pair.
struct PairFiles {
    bins: Option<PathBuf>,
    intervals: Option<PathBuf>,
    /// Whether the pair was found in a directory, rather than given by the user.
    is_found: bool,
}

impl PairFiles {
    /// Finds the pair of a file; `None` if it is not named like one of a pair.
    fn find(file: &Path) -> Option<Self> {
        let (pair, kind, ending) = split_path(file)?;
        let (own, other) = (Some(file.to_path_buf()), find_other_file(&pair, kind, ending));
        let (bins, intervals) = if kind == BINS { (own, other) } else { (other, own) };
        Some(Self { bins, intervals, is_found: false })
    }

    fn paths(&self) -> impl Iterator<Item = &Path> {
        [&self.bins, &self.intervals].into_iter().flatten().map(PathBuf::as_path)
    }

    /// Returns the first file, which messages name.
    fn first(&self) -> &Path {
        self.paths().next().unwrap_or(Path::new(""))
    }

    fn name(&self) -> String {
        self.first().display().to_string()
    }

    fn is_any_gone(&self) -> bool {
        self.paths().any(|path| !path.exists())
    }

    fn read(&self) -> exit::Result<Vec<Interval>> {
        let rows = |path: &Option<PathBuf>, read: Read| {
            path.as_deref().map_or(Ok(Vec::new()), |path| rows(path, read))
        };
        let bin_rows = rows(&self.bins, read_bins_from)?;
        let interval_rows = rows(&self.intervals, read_intervals_from)?;
        join(bin_rows, interval_rows).map_err(|e| usage!("{}: {e}", self.name()))
    }
}

/// Files that are left out because they are damaged.
#[derive(Debug, Default)]
struct DamagedFiles {
    count: usize,
    first: Option<DamagedFile>,
}

impl DamagedFiles {
    fn add(&mut self, file: DamagedFile) {
        self.count += 1;
        self.first.get_or_insert(file);
    }
}

/// Intervals of any number of files, added up over time for each host, subject and set of labels.
pub struct Fleet {
    /// The sums, ordered by key.
    pub intervals: Vec<Interval>,
    /// Number of intervals that were added.
    count: usize,
    /// Number of intervals without a row in an `.intervals` file.
    without_facts: usize,
    /// Intervals with a row but without bins, because the recorder was interrupted. They are not
    /// counted in `count`.
    cut: CutIntervals,
    damaged: DamagedFiles,
}

/// Intervals that are left out because their bins are missing.
#[derive(Debug, Default)]
struct CutIntervals {
    count: usize,
    /// The sums of their rows.
    fold: Fold,
}

impl CutIntervals {
    fn add(&mut self, interval: &Interval) {
        self.count += 1;
        self.fold.add(interval, |_| ());
    }
}

/// Whether a path is a file of bins by its name, or a directory that may contain some.
pub fn is_bins_path(path: &Path) -> bool {
    split_path(path).is_some() || (path.is_dir() && !file_io::resolve(path).is_file())
}

/// Checks that a result replaces no input: a file that is given or found in a directory. A file of
/// bins must not be written into a directory that is searched, because the next sum of this
/// directory would count everything twice.
///
/// # Errors
/// Returns an error that names the file.
pub fn check_output(paths: &[&Path], out: Destination<'_>) -> exit::Result<()> {
    out.check_inputs(paths.iter().copied())?;
    let bins: Vec<&Path> = paths.iter().copied().filter(|path| is_bins_path(path)).collect();
    if bins.is_empty() || out.is_stdout() {
        return Ok(());
    }
    let FoundPairs { pairs, search } = find_pairs(&bins, &mut DamagedFiles::default())?;
    file_io::check_inputs(&output_files(out.path), pairs.values().flat_map(PairFiles::paths))?;
    let directory = out.path.parent().filter(|directory| !directory.as_os_str().is_empty());
    if split_path(out.path).is_some() && search.has_found(directory.unwrap_or(Path::new("."))) {
        return Err(usage!(
            "cannot write to {}: its directory is an input, whose next sum would count everything twice; choose another directory; nothing was written",
            out.path.display()
        ));
    }
    Ok(())
}

impl Fleet {
    /// Reads files and directories, including those to which links lead. A file that is given twice
    /// is read once, and other files in a directory are ignored.
    ///
    /// # Errors
    /// Returns an error if a directory has no file of bins, if a file that was given is damaged, or if
    /// an interval occurs twice. Damaged files in a directory are left out and reported.
    pub fn read<P: AsRef<Path>>(paths: &[P]) -> exit::Result<Self> {
        let mut sum = Sum::default();
        let found = find_pairs(paths, &mut sum.damaged)?;
        for files in found.pairs.values() {
            match files.read() {
                Ok(intervals) => intervals
                    .iter()
                    .try_for_each(|interval| sum.add(interval))
                    .map_err(|e| exit::Error::from(e).context(files.name()))?,
                // A monitor has removed them since, because they are the oldest.
                Err(_) if files.is_found && files.is_any_gone() => {}
                Err(error) if files.is_found => sum.damaged.add(DamagedFile::Invalid(error)),
                Err(error) => return Err(error),
            }
        }
        let fleet = sum.finish().map_err(exit::Error::from);
        match paths {
            [path] => fleet.map_err(|e| e.context(path.as_ref().display())),
            _ => fleet,
        }
    }

    /// Reads the text of one file.
    ///
    /// # Errors
    /// Returns an error if the text is damaged, or if an interval occurs twice.
    pub fn parse(text: &str) -> Result<Self> {
        let read = if kind(text) == Some(Cells::Intervals) {
            read_intervals(text)
        } else {
            read_bins(text)
        };
        let mut sum = Sum::default();
        let intervals = read.map_err(|error| ImportReason::Bins(Box::new(error)))?;
        intervals.iter().try_for_each(|interval| sum.add(interval))?;
        sum.finish()
    }

    /// Adds up all intervals whose keys are equal after `group` has changed them, regardless of
    /// their time.
    ///
    /// # Errors
    /// Returns an error if there are more ticks than can be counted.
    pub fn add_up(&self, group: impl Fn(&mut Key)) -> Result<Vec<Interval>> {
        let mut fold = Fold::default();
        for interval in &self.intervals {
            fold.add(interval, &group);
        }
        let sums = fold.finish();
        check_ticks(&sums)?;
        Ok(sums)
    }

    /// Adds up the intervals of all hosts and times for each subject and set of labels. The name of
    /// the host is kept if there is only one.
    ///
    /// Intervals whose bins are missing become rows without bins, one for each host, by which a
    /// reader of the sum finds that they are missing.
    ///
    /// # Errors
    /// Returns an error if there are more ticks than can be counted.
    pub fn merge(&self) -> Result<Vec<Interval>> {
        let mut pairs = self.intervals.windows(2);
        let has_several_hosts = pairs.any(|pair| pair[0].key.host != pair[1].key.host);
        let mut merged = match has_several_hosts {
            true => self.add_up(|key| key.host.clear())?,
            false => self.add_up(|_| {})?,
        };
        let mut cut = self.cut.fold.clone().finish();
        check_ticks(&cut)?;
        cut.iter_mut().for_each(|row| WITHOUT_BINS.clone_into(&mut row.key.run_id));
        merged.extend(cut);
        Ok(merged)
    }

    /// Returns the report of all hosts together.
    ///
    /// # Errors
    /// Returns an error if there are more subjects than a report can have, or more ticks than can
    /// be counted.
    pub fn report(&self) -> Result<Report> {
        let sums = self.add_up(keep_shown_labels)?;
        check_count("subjects", sums.len())?;
        Ok(report(&sums, self.warnings()))
    }

    /// Returns the report of each host by name, or none if there are too many hosts to compare.
    pub fn hosts(&self) -> Vec<(&str, Report)> {
        let mut hosts: BTreeMap<&str, Fold> = BTreeMap::new();
        for interval in &self.intervals {
            hosts.entry(&interval.key.host).or_default().add(interval, keep_shown_labels);
        }
        if hosts.len() > MAX_RANKED {
            return Vec::new();
        }
        hosts
            .into_iter()
            .map(|(host, intervals)| (host, report(&intervals.finish(), Vec::new())))
            .collect()
    }

    /// Returns a message about damaged files in a directory.
    pub fn damage(&self) -> Option<String> {
        self.describe_damage("")
    }

    /// Returns a message that damaged files in a directory are left out.
    pub fn omitted_damage(&self) -> Option<String> {
        self.describe_damage(" left out")
    }

    fn describe_damage(&self, consequence: &str) -> Option<String> {
        let DamagedFiles { count, first } = &self.damaged;
        let files = pluralize(*count, "damaged or missing file");
        Some(format!("{files}{consequence}: {}", first.as_ref()?))
    }

    fn warnings(&self) -> Vec<Warning> {
        let mut warnings = vec![self.bins_warning()];
        if !self.intervals.iter().all(has_cost) {
            warnings.push(no_cost("a file of bins without cpu_ns"));
        }
        warnings.extend(self.missing_facts_warning());
        warnings.extend(self.damage_warning());
        warnings.extend(self.missing_bins_warning());
        warnings.extend(self.early_ticks_warning());
        warnings
    }

    /// Describes the limits of bins.
    fn bins_warning(&self) -> Warning {
        let hosts: HashSet<&str> =
            self.intervals.iter().map(|interval| interval.key.host.as_str()).collect();
        let widths = self.intervals.iter().map(|interval| interval.binning.width_percent());
        let (intervals, hosts) =
            (pluralize(self.count, "interval"), pluralize(hosts.len(), "host"));
        let message = format!(
            "{intervals} of {hosts}, added up bin by bin: a percentile is the upper end of its bin, at most {:.2} % above \
             the exact one. Bins do not keep the order of ticks: there is no jitter between ticks, there are no rounds, \
             and no confidence intervals.",
            widths.fold(0.0, f64::max)
        );
        Warning::new("import-bins", message, "report.json of osjitter run keeps every sample.")
    }

    /// Describes intervals of which only the bins are known.
    #[must_use]
    pub fn missing_facts_warning(&self) -> Option<Warning> {
        if self.without_facts == 0 {
            return None;
        }
        let message = format!(
            "{} without a row in an .intervals file: skipped ticks are not known, missed ticks are counted only in bins \
             that are later than a period, and the maximum is the upper end of its bin.",
            pluralize(self.without_facts, "interval")
        );
        Some(Warning::new("import-bins-alone", message, "Keep both files of a pair together."))
    }

    fn damage_warning(&self) -> Option<Warning> {
        let message = self.omitted_damage()? + ".";
        Some(Warning::new(DAMAGE_WARNING, message, "Repair the row, or remove the files."))
    }

    /// Describes intervals that are left out because their bins are missing.
    #[must_use]
    pub fn missing_bins_warning(&self) -> Option<Warning> {
        if self.cut.count == 0 {
            return None;
        }
        let intervals = pluralize(self.cut.count, "interval");
        let message = format!("{intervals} left out: there are ticks, but no bins.");
        let hint = "The recorder was killed between its two files, or the .bins file was removed.";
        Some(Warning::new(MISSING_BINS_WARNING, message, hint))
    }

    fn early_ticks_warning(&self) -> Option<Warning> {
        if !self.intervals.iter().any(has_early_ticks) {
            return None;
        }
        Some(Warning::new(
            "import-bins-early",
            "Some ticks came before their deadline. Bins do not keep by how much; it is shown as 1 ns.",
            "An early tick is a bug of its timer or its clock.",
        ))
    }
}

/// Checks that no interval has more ticks than can be counted.
fn check_ticks(intervals: &[Interval]) -> Result<()> {
    let ticks =
        |i: &Interval| i.facts.as_ref().map_or(0, |facts| facts.ticks.planned).max(i.count());
    match intervals.iter().find(|interval| ticks(interval) > MAX_COUNT) {
        Some(over) => Err(ImportReason::TooManyTicks { key: Box::new(over.key.clone()) }.into()),
        None => Ok(()),
    }
}

fn has_cost(interval: &Interval) -> bool {
    interval.facts.as_ref().is_some_and(|facts| facts.cpu_ns.is_some())
}

fn has_early_ticks(interval: &Interval) -> bool {
    interval.rows().next().is_some_and(|(bin, _)| bin.lower < 0)
}

/// The pairs that paths mean, and the search through the directories among them.
struct FoundPairs {
    pairs: Pairs,
    search: BinsSearch,
}

/// Finds the pairs that paths mean, each once. Adds what cannot be read to `damaged`.
fn find_pairs<P: AsRef<Path>>(paths: &[P], damaged: &mut DamagedFiles) -> exit::Result<FoundPairs> {
    let (mut pairs, mut search) = (Pairs::new(), BinsSearch::default());
    for path in paths.iter().map(AsRef::as_ref) {
        if path.is_dir() {
            let found = search.find(path)?;
            if found.files.is_empty() && !found.has_known_files {
                let broken = found.unreadable.first().map_or(String::new(), |e| format!("; {e}"));
                return Err(usage!(
                    "{}: contains neither report.json nor *.bins.csv{broken}",
                    path.display()
                ));
            }
            for path in found.unreadable {
                damaged.add(DamagedFile::Unreadable(path));
            }
            for files in found.files.iter().filter_map(|file| PairFiles::find(file)) {
                let first = files.first().to_path_buf();
                pairs.entry(first).or_insert(PairFiles { is_found: true, ..files });
            }
        } else if let Some(files) = PairFiles::find(path) {
            pairs.insert(files.first().to_path_buf(), files);
        }
    }
    Ok(FoundPairs { pairs, search })
}

/// Removes the parts of a key that a table does not show separately: the host and the other labels.
fn keep_shown_labels(key: &mut Key) {
    key.host.clear();
    key.labels = key.labels.select(&[LOAD, INSTANCES, ID]);
}

type Read = fn(TextReader) -> std::result::Result<Vec<Interval>, BinsError>;

/// Reads the rows of a file while it is unpacked, since its text can be much larger than the file.
fn rows(path: &Path, read: Read) -> exit::Result<Vec<Interval>> {
    let text = if path.extension().is_some_and(|ending| ending == "parquet") {
        parquet(path).map_err(|e| e.context(path.display()))?
    } else {
        TextReader::open(path)?
    };
    read(text).map_err(|e| usage!("{}: {e}", path.display()))
}

#[cfg(feature = "parquet")]
fn parquet(path: &Path) -> exit::Result<TextReader> {
    let file_bytes = std::fs::metadata(path).map_or(0, |meta| meta.len());
    let rows = crate::parquet::CsvReader::open(path)?;
    TextReader::from_decoder(Box::new(rows), file_bytes).map_err(|e| usage!("{e}"))
}

#[cfg(not(feature = "parquet"))]
fn parquet(_: &Path) -> exit::Result<TextReader> {
    Err(exit::Error::usage(crate::import_error::NO_PARQUET))
}

/// Returns the file that forms a pair with the one of this kind and ending: that with the same
/// ending, or else the only one without a partner if this one is the only one of its kind without.
fn find_other_file(pair: &Path, kind: &str, ending: &str) -> Option<PathBuf> {
    let other_kind = if kind == BINS { INTERVALS } else { BINS };
    let exists = |kind: &str, ending: &str| file_path(pair, kind, ending).is_file();
    if exists(other_kind, ending) {
        return Some(file_path(pair, other_kind, ending));
    }
    let is_alone =
        |own: &str, other: &str, ending: &str| exists(own, ending) && !exists(other, ending);
    let mut rivals = ENDINGS.iter().filter(|rival| **rival != ending);
    let mut others = ENDINGS.iter().filter(|other| is_alone(other_kind, kind, other));
    match (others.next(), others.next()) {
        (Some(only), None) if !rivals.any(|rival| is_alone(kind, other_kind, rival)) => {
            Some(file_path(pair, other_kind, only))
        }
        _ => None,
    }
}

#[derive(Default)]
struct Sum {
    fold: Fold,
    seen: HashSet<u64>,
    count: usize,
    without_facts: usize,
    cut: CutIntervals,
    damaged: DamagedFiles,
}

impl Sum {
    fn add(&mut self, interval: &Interval) -> Result<()> {
        if interval.bins.is_empty()
            && interval.facts.as_ref().is_some_and(|facts| facts.ticks.came() > 0)
        {
            self.cut.add(interval);
            return Ok(());
        }
        // A hash instead of the key: months of many hosts are millions of intervals.
        let mut hasher = DefaultHasher::new();
        interval.key.identity().hash(&mut hasher);
        if !self.seen.insert(hasher.finish()) {
            let key = Box::new(interval.key.clone());
            return Err(ImportReason::RepeatedInterval { key }.into());
        }
        self.count += 1;
        self.without_facts += usize::from(interval.facts.is_none());
        self.fold.add(interval, |_| ());
        Ok(())
    }

    fn finish(self) -> Result<Fleet> {
        let (count, without_facts) = (self.count, self.without_facts);
        if count == 0 {
            let reason = match self.damaged.first {
                Some(first) => ImportReason::OnlyDamagedFiles(Box::new(first)),
                None if self.cut.count > 0 => ImportReason::MissingBins,
                None => ImportReason::NoInterval,
            };
            return Err(reason.into());
        }
        let (intervals, cut, damaged) = (self.fold.finish(), self.cut, self.damaged);
        Ok(Fleet { intervals, count, without_facts, cut, damaged })
    }
}

/// Builds a report with one subject for each interval.
fn report(intervals: &[Interval], warnings: Vec<Warning>) -> Report {
    let start = intervals.iter().map(|interval| interval.key.start_us).min().flatten();
    let end = |key: &Key| Some(key.start_us?.saturating_add(key.duration_ns / 1_000));
    let last = intervals.iter().filter_map(|interval| end(&interval.key)).max();
    let imported = ImportedReport {
        started_utc: start.map(stamp),
        duration_ns: last
            .zip(start)
            .map(|(last, start)| last.saturating_sub(start).saturating_mul(1_000)),
        subjects: intervals.iter().map(subject_from_interval).collect(),
        ..ImportedReport::new(SCHEMA, clock("unknown", None), warnings)
    };
    imported.report()
}

fn subject_from_interval(interval: &Interval) -> Subject {
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
