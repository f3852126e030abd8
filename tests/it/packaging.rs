//! Checks that the parts of a release agree with each other.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::workspace::crates;

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

/// Reads a file of the repository; a published package has neither scripts nor workflows.
fn read(file: &str) -> Option<String> {
    std::fs::read_to_string(root().join(file)).ok()
}

fn metadata(tool: &str) -> toml::Table {
    let manifest: toml::Table = read("Cargo.toml").expect("the manifest").parse().expect("TOML");
    manifest["package"]["metadata"][tool].as_table().expect("a table").clone()
}

#[test]
fn binstall_urls_match_release_names() {
    let Some(script) = read("scripts/release/release.sh") else { return };
    assert!(script.contains("name=osjitter-$version-$target\n"), "the script names an archive");
    let fill = |text: &str, target: &str| {
        let text = text.replace("{ version }", "1.2.3").replace("{ target }", target);
        text.replace("{ bin }", "osjitter").replace("{ binary-ext }", "").replace("{ repo }", "R")
    };
    let binstall = metadata("binstall");
    let url = |table: &toml::Table, target: &str| fill(table["pkg-url"].as_str().unwrap(), target);
    let inside =
        |table: &toml::Table, target: &str| fill(table["bin-dir"].as_str().unwrap(), target);
    let linux = "x86_64-unknown-linux-musl";
    assert_eq!(
        url(&binstall, linux),
        format!("R/releases/download/v1.2.3/osjitter-1.2.3-{linux}.tar.gz")
    );
    assert_eq!(inside(&binstall, linux), format!("osjitter-1.2.3-{linux}/osjitter"));
    // Both Windows targets use the same program.
    let windows = "x86_64-pc-windows-gnu";
    for target in [windows, "x86_64-pc-windows-msvc"] {
        let table = binstall["overrides"][target].as_table().unwrap();
        assert_eq!(
            url(table, target),
            format!("R/releases/download/v1.2.3/osjitter-1.2.3-{windows}.zip")
        );
        assert_eq!(inside(table, target), format!("osjitter-1.2.3-{windows}/osjitter"));
    }
}

#[test]
fn debian_package_assets_exist() {
    let (deb, Some(script)) = (metadata("deb"), read("scripts/release/release.sh")) else { return };
    let assets = deb["assets"].as_array().unwrap();
    assert!(assets.len() > 5);
    for asset in assets {
        let source = asset[0].as_str().unwrap();
        match source.strip_prefix("target/") {
            Some(built) if built.starts_with("release/") => {}
            Some(built) => {
                let directory =
                    Path::new("target").join(Path::new(built).components().next().unwrap());
                assert!(script.contains(directory.to_str().unwrap()), "{source} is not made");
            }
            None => assert!(root().join(source).is_file(), "there is no {source}"),
        }
    }
}

#[test]
fn third_party_actions_are_pinned() {
    let Ok(workflows) = std::fs::read_dir(root().join(".github/workflows")) else { return };
    let mut seen = 0;
    for workflow in workflows.map(|entry| entry.unwrap().path()) {
        let text = std::fs::read_to_string(&workflow).unwrap();
        for line in
            text.lines().filter_map(|line| line.split_once("uses: ").map(|(_, action)| action))
        {
            let pinned = line.split_once('@').is_some_and(|(_, pin)| {
                let (commit, version) = pin.split_once(" # v").unwrap_or((pin, ""));
                commit.len() == 40
                    && commit.bytes().all(|b| b.is_ascii_hexdigit())
                    && !version.is_empty()
            });
            assert!(pinned || line.starts_with("./"), "{}: {line}", workflow.display());
            seen += 1;
        }
    }
    assert!(seen > 10, "{seen} actions");
}

#[cfg(unix)]
#[test]
fn release_script_rejects_unknown_options() {
    if read("scripts/release/release.sh").is_none() {
        return;
    }
    let ran = Command::new("bash")
        .arg(root().join("scripts/release/release.sh"))
        .arg("--debb")
        .output()
        .unwrap();
    assert_eq!(ran.status.code(), Some(2));
    assert_eq!(String::from_utf8_lossy(&ran.stderr), "release: unknown option --debb\n");
}

/// Maximum size of the files of a day, with an interval of five minutes.
const MAX_DAY_BYTES: u64 = 100_000_000;
const INTERVALS_PER_DAY: u64 = 288;

/// Returns the maximum size of the log of a monitor with these flags.
fn max_log_bytes(flags: &[&str]) -> u64 {
    let value = |flag: &str| {
        let at = flags.iter().position(|word| *word == flag);
        *flags.get(at.unwrap_or_else(|| panic!("no {flag} in {flags:?}")) + 1).expect("a value")
    };
    assert_eq!(value("--interval"), "5m");
    let keep: u64 = value("--keep").parse().expect("a number of intervals");
    keep * MAX_DAY_BYTES / INTERVALS_PER_DAY
}

#[test]
fn deployed_monitors_bound_their_logs() {
    let unit = read("deploy/systemd/osjitter-monitor.service");
    let manifest = read("deploy/kubernetes/monitor.yaml");
    let (Some(unit), Some(manifest)) = (unit, manifest) else { return };
    let start = unit.lines().find_map(|line| line.strip_prefix("ExecStart=")).expect("a command");
    let flags: Vec<&str> = start.split_whitespace().collect();
    assert!(max_log_bytes(&flags) <= 2_000_000_000, "{start}");
    let setting = |name: &str| {
        let setting = manifest.lines().find_map(|line| line.trim().strip_prefix(name));
        setting.unwrap_or_else(|| panic!("no {name}")).trim()
    };
    let args: Vec<&str> = setting("args: [")
        .trim_end_matches(']')
        .split(',')
        .map(|word| word.trim().trim_matches('"'))
        .collect();
    let volume = setting("sizeLimit:").strip_suffix("Mi").expect("a size in MiB");
    let volume_bytes = volume.parse::<u64>().expect("a size") << 20;
    assert!(max_log_bytes(&args) * 5 / 4 <= volume_bytes, "{args:?} in {volume} MiB");
    let paths: Vec<&str> =
        manifest.lines().filter_map(|line| line.trim().strip_prefix("path: /")).collect();
    assert_eq!(paths, ["healthz", "-/ready"], "its probes");
}

/// Returns a manifest of the repository as a table.
fn read_manifest(directory: &Path) -> toml::Table {
    let path = directory.join("Cargo.toml");
    let text = std::fs::read_to_string(&path).unwrap();
    text.parse().unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

#[test]
fn all_versions_agree() {
    if crates().is_empty() {
        return;
    }
    let workspace = read_manifest(&root())["workspace"].clone();
    let version = workspace["package"]["version"].as_str().unwrap();
    let dependencies = workspace["dependencies"].as_table().unwrap();
    let ours: Vec<_> = dependencies.iter().filter(|(_, d)| d.get("path").is_some()).collect();
    assert_eq!(ours.len(), crates().len());
    for (name, dependency) in ours {
        assert_eq!(dependency["version"].as_str(), Some(version), "{name}");
    }
    let manpages = read_manifest(&root().join("scripts/release/manpages"));
    assert_eq!(manpages["dependencies"]["osjitter"]["version"].as_str(), Some(version));
    for file in ["gate-node.yaml", "monitor.yaml"] {
        let text = read(&format!("deploy/kubernetes/{file}")).expect("a manifest");
        let images: Vec<&str> =
            text.lines().filter_map(|l| l.trim().strip_prefix("image: ")).collect();
        assert_eq!(images, [format!("osjitter:{version}")], "{file}");
    }
}

/// The registry refuses a crate that lacks these keys, but a dry run does not.
#[test]
fn published_crates_have_metadata() {
    for directory in crates().into_iter().chain([root()]) {
        let package = read_manifest(&directory)["package"].clone();
        let name = package["name"].as_str().unwrap();
        assert!(package["description"].as_str().is_some_and(|text| text.len() > 20), "{name}");
        assert!(package.get("license").is_some() && package.get("repository").is_some(), "{name}");
        let keywords = package["keywords"].as_array().unwrap();
        let is_short = |word: &toml::Value| word.as_str().is_some_and(|word| word.len() <= 20);
        assert!((1..=5).contains(&keywords.len()) && keywords.iter().all(is_short), "{name}");
        let categories = package["categories"].as_array().unwrap();
        assert!((1..=5).contains(&categories.len()), "{name}");
        for file in ["README.md", "LICENSE-APACHE", "LICENSE-MIT"] {
            assert!(directory.join(file).is_file(), "{name} has no {file}");
        }
    }
}

#[test]
fn recipes_name_the_repository() {
    let (Some(flake), Some(formula)) = (read("flake.nix"), read("Formula/osjitter.rb")) else {
        return;
    };
    let package = read_manifest(&root())["workspace"]["package"].clone();
    let repository = package["repository"].as_str().unwrap();
    assert!(formula.contains(&format!("homepage \"{repository}\"\n")));
    assert!(formula.contains(&format!("head \"{repository}.git\", branch: \"main\"\n")));
    let lock: serde_json::Value = serde_json::from_str(&read("flake.lock").unwrap()).unwrap();
    let original = &lock["nodes"]["nixpkgs"]["original"];
    let part = |key: &str| original[key].as_str().unwrap().to_owned();
    let url = format!("{}:{}/{}/{}", part("type"), part("owner"), part("repo"), part("ref"));
    assert!(flake.contains(&format!("inputs.nixpkgs.url = \"{url}\";\n")), "{url}");
    assert_eq!(lock["nodes"]["nixpkgs"]["locked"]["rev"].as_str().map(str::len), Some(40));
}
