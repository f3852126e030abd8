//! Tests of `osjitter man`: each visible command has a page.

use crate::osjitter::Osjitter;

#[test]
fn every_command_has_manual_page() {
    let directory = tempfile::tempdir().unwrap();
    Osjitter::new(["man"]).args([directory.path()]).run().exits(0);
    let pages: Vec<_> =
        directory.path().read_dir().unwrap().map(|entry| entry.unwrap().path()).collect();
    let names: Vec<&str> =
        pages.iter().map(|page| page.file_name().unwrap().to_str().unwrap()).collect();
    for name in
        ["osjitter.1", "osjitter-run.1", "osjitter-gate-baseline-add.1", "osjitter-bench-clock.1"]
    {
        assert!(names.contains(&name), "no {name} in {names:?}");
    }
    assert!(
        !names.contains(&"osjitter-stress.1") && !names.contains(&"osjitter-man.1"),
        "{names:?}"
    );
    for page in &pages {
        let text = std::fs::read_to_string(page).unwrap();
        for heading in [".SH NAME", ".SH SYNOPSIS", ".SH OPTIONS"] {
            assert!(text.contains(heading), "{}: no {heading}", page.display());
        }
        assert!(
            text.contains(concat!("osjitter ", env!("CARGO_PKG_VERSION"))),
            "{}",
            page.display()
        );
    }
    let first = Osjitter::new(["man"]).run().exits(0).stdout;
    assert_eq!(first, std::fs::read_to_string(directory.path().join("osjitter.1")).unwrap());
    let file = directory.path().join("osjitter.1");
    let refused = Osjitter::new(["man"]).args([&file]).run().exits(4);
    assert!(
        refused.stderr.starts_with(&format!("error: cannot write {}: ", file.display())),
        "{}",
        refused.stderr
    );
}
