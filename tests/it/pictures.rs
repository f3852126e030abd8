//! Tests the pictures of `osjitter run`: which are drawn, and how many subjects share their axes.

use crate::osjitter::Osjitter;

fn run(args: &[&str]) -> Osjitter {
    Osjitter::new(["run", "--quiet"]).args(args)
}

#[test]
fn single_subjects_are_drawn_on_request() {
    let files = |more: &[&str]| {
        let ran =
            run(&["--subject", "spin", "--ticks", "30"]).args(more).out("fresh").run().exits(0);
        let mut names: Vec<String> = std::fs::read_dir(ran.path("fresh"))
            .unwrap()
            .map(|file| file.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    };
    let main = ["percentiles.svg", "report.html", "report.json", "tradeoff.svg"];
    assert_eq!(files(&[]), main);
    let all = files(&["--svg"]);
    assert!(all.len() > main.len() && main.iter().all(|name| all.iter().any(|file| file == name)));
}

/// Up to 12 subjects share their axes and have their names next to them; more have separate axes
/// and a legend.
#[test]
fn many_subjects_get_separate_charts() {
    const SUBJECTS: &str = "os-interval os-interval-delay os-interval-skip os-interval-group os-sleep os-timeout nanosleep \
                    tokio-interval tokio-interval-delay tokio-interval-skip tokio-sleep tokio-sleep-reused tokio-timeout";
    let pictures = |subjects: usize| {
        let selected =
            SUBJECTS.split_whitespace().take(subjects).flat_map(|subject| ["--subject", subject]);
        let args = ["--svg", "--period", "1ms", "--ticks", "20"];
        let ran = run(&args).args(selected.collect::<Vec<_>>()).out("drawn").run().exits(0);
        ["percentiles", "tradeoff"].map(|name| ran.file(&format!("drawn/{name}.svg")))
    };
    let [few, names] = pictures(12);
    assert_eq!(
        (
            few.matches("percentile of the ticks").count(),
            names.matches("tokio-interval-skip").count()
        ),
        (1, 1)
    );
    let [many, legend] = pictures(13);
    assert_eq!(
        (
            many.matches("percentile of the ticks").count(),
            many.matches("tokio-interval-skip").count()
        ),
        (0, 1)
    );
    assert!(
        legend.find("tokio-timeout") < legend.find("CPU time per tick"),
        "the legend comes before the axes"
    );
}
