//! Tests of `osjitter gate`.

mod baseline;
mod benches;
// Other platforms cannot bind threads to CPUs, so --duet is rejected there.
#[cfg(target_os = "linux")]
mod duet;
mod limits;
mod pairs;
mod programs;
mod rates;
mod runs;
mod screen;

use files::file::File as _;
use files::gate::verdict::Verdict;

use crate::osjitter::{Osjitter, Ran};
use crate::schema;

const QUICK: [&str; 8] =
    ["--period", "1ms", "--round-ticks", "40", "--warmup", "3", "--max-pairs", "24"];

struct Gate {
    ran: Ran,
    verdict: Option<Verdict>,
}

/// Reads a verdict and checks it against its published schema.
fn read(text: &str) -> Verdict {
    schema::valid(text, "verdict.1");
    Verdict::from_json(text).unwrap()
}

fn gate(args: &[&str]) -> Osjitter {
    Osjitter::new(["gate"]).args(args).out("")
}

impl Gate {
    fn from_ran(ran: Ran) -> Self {
        let file = std::fs::read_to_string(ran.path("verdict.json")).ok();
        Self { verdict: file.map(|text| read(&text)), ran }
    }

    fn run(args: &[&str]) -> Self {
        Self::from_ran(gate(args).run())
    }

    /// Runs a gate of the scripted subjects: 24 pairs of rounds of 40 ticks at 1 ms, which take no
    /// time.
    fn scripted(args: &[&str], scripts: &serde_json::Value) -> Self {
        Self::from_ran(gate(&[args, &QUICK].concat()).script(scripts).run())
    }

    /// Runs a gate of 24 pairs of rounds of 40 ticks at 1 ms, which takes about two seconds.
    fn quick(args: &[&str]) -> Self {
        Self::run(&[args, &QUICK].concat())
    }

    #[track_caller]
    fn exits(self, code: i32) -> Self {
        Self { ran: self.ran.exits(code), ..self }
    }

    /// Returns the verdict.
    ///
    /// # Panics
    /// Panics if no verdict was written.
    #[track_caller]
    fn verdict(&self) -> &Verdict {
        self.verdict.as_ref().unwrap_or_else(|| panic!("no verdict: {}", self.ran.stderr))
    }

    /// Checks that the gate was rejected with this message and wrote no verdict.
    #[track_caller]
    fn refuses(self, says: &str) {
        let ran = self.ran.refuses(says);
        assert!(self.verdict.is_none(), "{says}: {}", ran.stderr);
    }
}
