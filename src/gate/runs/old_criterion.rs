//! Criterion 0.3, which accepts only whole seconds on its command line.
//!
//! Many published packages still use it. A run with whole seconds is too long for a gate, so
//! `--bench` builds a copy of Criterion with two changes: its flags accept fractions of a second,
//! as in 0.4, and have priority over the times that a group of benchmarks sets. Cargo's `paths` put
//! the copy in the place of the package, without a change to `Cargo.lock`.

use std::ffi::OsStr;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use serde::Deserialize;

/// First version that reports to the program that runs it.
const FIRST_READ: CriterionVersion = CriterionVersion { minor: 3, patch: 3 };
/// First version that accepts fractions of a second.
const FIRST_WITH_FRACTIONS: CriterionVersion = CriterionVersion { minor: 4, patch: 0 };

/// Flags with a time.
const TIME_FLAGS: [&str; 2] = ["warm-up-time", "measurement-time"];
/// Settings of a group that would have priority over the flags.
const GROUP_SETTINGS: [&str; 3] = ["warm_up_time", "measurement_time", "sample_size"];
/// Lines that the copy adds to its manifest, because it is below the directory of another
/// workspace.
const OWN_WORKSPACE: &str = "\n[workspace]\n";

/// A version 0.x of Criterion.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct CriterionVersion {
    minor: u64,
    patch: u64,
}

impl CriterionVersion {
    /// Parses `0.3.6`. Versions from 1 on do not exist yet, and would accept fractions.
    fn parse(text: &str) -> Option<Self> {
        let (minor, patch) = text.strip_prefix("0.")?.split_once('.')?;
        let patch = patch.split(['-', '+']).next()?;
        Some(Self { minor: minor.parse().ok()?, patch: patch.parse().ok()? })
    }
}

impl fmt::Display for CriterionVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "0.{}.{}", self.minor, self.patch)
    }
}

/// Reason why the benchmarks of an old Criterion cannot be gated.
#[derive(Debug, thiserror::Error)]
pub enum OldCriterionError {
    #[error(
        "Criterion {0} does not report to other programs; update it to {FIRST_READ}, or better to 0.5"
    )]
    NotRead(CriterionVersion),
    #[error("Criterion {0} accepts only whole seconds and has an unknown source; update it to 0.5")]
    UnknownSource(CriterionVersion),
    #[error("cannot copy Criterion {version}: {source}")]
    NotCopied { version: CriterionVersion, source: io::Error },
}

/// An old Criterion among the dependencies of a package.
#[derive(Debug, PartialEq)]
pub struct OldCriterion {
    pub version: CriterionVersion,
    /// The directory of its source.
    source: PathBuf,
}

impl OldCriterion {
    /// Finds an old Criterion in the metadata of a package with its dependencies. Returns `None` if
    /// no Criterion is old.
    ///
    /// # Errors
    /// Returns an error if the only Criterion is too old to be read.
    pub fn find(metadata: &[u8]) -> Result<Option<Self>, OldCriterionError> {
        #[derive(Deserialize)]
        struct Metadata {
            packages: Vec<Package>,
        }
        #[derive(Deserialize)]
        struct Package {
            name: String,
            version: String,
            manifest_path: PathBuf,
        }
        // Cargo reports its own errors when it builds.
        let packages =
            serde_json::from_slice::<Metadata>(metadata).map_or(Vec::new(), |found| found.packages);
        let mut found = Vec::new();
        for package in packages.iter().filter(|package| package.name == "criterion") {
            let Some(version) = CriterionVersion::parse(&package.version) else { continue };
            let source = package.manifest_path.parent().map(Path::to_owned).unwrap_or_default();
            found.push(Self { version, source });
        }
        let newest = found.iter().map(|criterion| criterion.version).max();
        let is_usable =
            |criterion: &Self| (FIRST_READ..FIRST_WITH_FRACTIONS).contains(&criterion.version);
        match (found.into_iter().find(is_usable), newest) {
            (Some(old), _) => Ok(Some(old)),
            (None, Some(newest)) if newest < FIRST_READ => Err(OldCriterionError::NotRead(newest)),
            (None, _) => Ok(None),
        }
    }

    /// Writes the changed copy into a directory and returns its path. A copy that exists is kept if
    /// it is the same, so that cargo need not compile it again.
    ///
    /// # Errors
    /// Returns an error if the source is not the known one, or cannot be copied.
    pub fn write_copy(&self, directory: &Path) -> Result<PathBuf, OldCriterionError> {
        let Self { version, ref source } = *self;
        let not_copied = |source| OldCriterionError::NotCopied { version, source };
        let copy = directory.join(format!("criterion-{version}"));
        let read = |path: &str| std::fs::read_to_string(source.join(path)).map_err(not_copied);
        let unknown = || OldCriterionError::UnknownSource(version);
        let mut changed = vec![
            ("Cargo.toml", Some(read("Cargo.toml")?)),
            ("src/lib.rs", accept_fractions(&read("src/lib.rs")?)),
            ("src/benchmark.rs", ignore_groups(&read("src/benchmark.rs")?)),
        ];
        if let Some(manifest) = &mut changed[0].1 {
            manifest.push_str(OWN_WORKSPACE);
        }
        copy_directory(source, &copy, &|path| {
            changed.iter().any(|(name, _)| path == source.join(name))
        })
        .map_err(not_copied)?;
        for (name, text) in changed {
            write_changed(&copy.join(name), text.ok_or_else(unknown)?.as_bytes())
                .map_err(not_copied)?;
        }
        Ok(copy)
    }
}

/// Makes the flags with a time accept fractions. Returns `None` if the source is not the known one.
fn accept_fractions(source: &str) -> Option<String> {
    // The warnings of a package from crates.io are not shown to its users either.
    let mut text = format!("#![allow(warnings)]\n{source}");
    for flag in TIME_FLAGS {
        let whole = format!("value_t!(matches.value_of(\"{flag}\"), u64)");
        let fraction = format!("value_t!(matches.value_of(\"{flag}\"), f64)");
        let duration = "Duration::new(num_seconds, 0)";
        let place = text.find(&whole)?;
        let (before, after) = text.split_at(place);
        let after = after.replacen(&whole, &fraction, 1);
        after.contains(duration).then_some(())?;
        let after = after.replacen(duration, "Duration::from_secs_f64(num_seconds)", 1);
        text = format!("{before}{after}");
    }
    Some(text)
}

/// Makes benchmarks ignore the times of their group. Returns `None` if the source is not the known
/// one.
fn ignore_groups(source: &str) -> Option<String> {
    let mut text = source.to_owned();
    for setting in GROUP_SETTINGS {
        let own = format!("self.{setting}.unwrap_or(defaults.{setting})");
        text.contains(&own).then_some(())?;
        text = text.replace(&own, &format!("defaults.{setting}"));
    }
    Some(text)
}

/// Copies the files of a directory, except those for which `is_left_out` returns true.
fn copy_directory(
    source: &Path,
    copy: &Path,
    is_left_out: &dyn Fn(&Path) -> bool,
) -> io::Result<()> {
    std::fs::create_dir_all(copy)?;
    for entry in std::fs::read_dir(source)? {
        let entry = entry?;
        let (from, to) = (entry.path(), copy.join(entry.file_name()));
        let file_type = entry.file_type()?;
        // The source can be a checkout, with build products of its own.
        let is_other = [OsStr::new(".git"), OsStr::new("target")].contains(&&*entry.file_name());
        if file_type.is_dir() && !is_other {
            copy_directory(&from, &to, is_left_out)?;
        } else if file_type.is_file() && !is_left_out(&from) {
            write_changed(&to, &std::fs::read(&from)?)?;
        }
    }
    Ok(())
}

/// Writes a file unless it has this content: cargo compiles what was written.
fn write_changed(path: &Path, content: &[u8]) -> io::Result<()> {
    match std::fs::read(path) {
        Ok(found) if found == content => Ok(()),
        _ => std::fs::write(path, content),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIB: &str = r#"//! Docs.
let s = value_t!(matches.value_of("profile-time"), u64); Duration::new(num_seconds, 0)
let s = value_t!(matches.value_of("warm-up-time"), u64); std::time::Duration::new(num_seconds, 0)
let s = value_t!(matches.value_of("measurement-time"), u64); std::time::Duration::new(num_seconds, 0)
"#;
    const BENCHMARK: &str = "a: self.warm_up_time.unwrap_or(defaults.warm_up_time),
b: self.measurement_time.unwrap_or(defaults.measurement_time),
c: self.sample_size.unwrap_or(defaults.sample_size),
d: self.nresamples.unwrap_or(defaults.nresamples),
";

    fn metadata(versions: &[&str]) -> Vec<u8> {
        let package = |name: &str, version: &str| {
            let path = format!("/r/{name}-{version}/Cargo.toml");
            serde_json::json!({ "name": name, "version": version, "manifest_path": path })
        };
        let mut packages = vec![package("criterion-plot", "0.3.1")];
        packages.extend(versions.iter().map(|version| package("criterion", version)));
        serde_json::json!({ "packages": packages }).to_string().into_bytes()
    }

    #[test]
    fn old_versions_are_found() {
        let found = |versions: &[&str]| OldCriterion::find(&metadata(versions));
        let old = found(&["0.5.1", "0.3.6"]).unwrap().unwrap();
        assert_eq!(
            (old.version.to_string(), old.source),
            ("0.3.6".into(), "/r/criterion-0.3.6".into())
        );
        for versions in [&[][..], &["0.4.0"], &["0.8.2", "0.3.1"], &["1.0.0"], &["?"]] {
            assert_eq!(found(versions).unwrap(), None, "{versions:?}");
        }
        let error = found(&["0.3.2"]).unwrap_err().to_string();
        assert!(error.starts_with("Criterion 0.3.2 does not report"), "{error}");
        assert_eq!(OldCriterion::find(b"error").unwrap(), None);
    }

    #[test]
    fn times_become_fractions() {
        let changed = accept_fractions(LIB).unwrap();
        let lines: Vec<&str> = changed.lines().collect();
        assert_eq!(
            lines[..3].join("\n"),
            format!(
                "#![allow(warnings)]\n{}",
                &LIB[..LIB.find("\nlet s = value_t!(matches.value_of(\"warm").unwrap()]
            )
        );
        for line in &lines[3..] {
            assert!(
                line.contains("f64); std::time::Duration::from_secs_f64(num_seconds)"),
                "{line}"
            );
        }
        assert_eq!(accept_fractions("u64"), None);
        let ignoring = ignore_groups(BENCHMARK).unwrap();
        assert!(ignoring.starts_with("a: defaults.warm_up_time,\nb: defaults.measurement_time,\nc: defaults.sample_size,\nd: self."), "{ignoring}");
        assert_eq!(ignore_groups(BENCHMARK.lines().next().unwrap()), None);
    }

    #[test]
    fn copies_are_written_once() {
        let home = tempfile::tempdir().unwrap();
        let (source, target) = (home.path().join("source"), home.path().join("target"));
        std::fs::create_dir_all(source.join("src")).unwrap();
        for (name, text) in [
            ("Cargo.toml", "[package]"),
            ("src/lib.rs", LIB),
            ("src/benchmark.rs", BENCHMARK),
            ("src/other.rs", "x"),
        ] {
            std::fs::write(source.join(name), text).unwrap();
        }
        let old = OldCriterion {
            version: CriterionVersion::parse("0.3.6").unwrap(),
            source: source.clone(),
        };
        let copy = old.write_copy(&target).unwrap();
        assert_eq!(copy, target.join("criterion-0.3.6"));
        let read = |name: &str| std::fs::read_to_string(copy.join(name)).unwrap();
        assert_eq!(
            (read("Cargo.toml").as_str(), read("src/other.rs").as_str()),
            ("[package]\n[workspace]\n", "x")
        );
        assert_eq!(read("src/lib.rs"), accept_fractions(LIB).unwrap());
        let modified = || {
            ["Cargo.toml", "src/lib.rs"]
                .map(|name| copy.join(name).metadata().unwrap().modified().unwrap())
        };
        let before = modified();
        old.write_copy(&target).unwrap();
        assert_eq!(modified(), before);
        std::fs::write(source.join("src/lib.rs"), "").unwrap();
        let error = old.write_copy(&target).unwrap_err().to_string();
        assert!(error.contains("unknown source"), "{error}");
    }
}
