//! Target for the outputs of the harnesses of benchmarks.

use cli::exit::{self, Error};
use engine::measure::benches::{self, BenchFormat};

use crate::fuzz::step_costs::StepCosts;

/// Parses the output as that of each harness.
pub fn body(bytes: &[u8], costs: &StepCosts) -> exit::Result<()> {
    let mut is_accepted = false;
    let mut reasons = String::new();
    for format in BenchFormat::ALL {
        match costs.measure(format.name(), || benches::parse(format, bytes)) {
            Ok(results) => {
                // Every benchmark has a name of its own, and values that are zero or have a
                // logarithm.
                let values = results.iter().flat_map(|bench| &bench.numbers);
                let mut values = values.filter_map(|number| number.value);
                assert!(values.all(|value| value.is_finite() && value >= 0.0), "{results:?}");
                assert!(results.windows(2).all(|pair| pair[0].name < pair[1].name), "{results:?}");
                is_accepted |= !results.is_empty();
            }
            Err(error) => reasons += &error.to_string(),
        }
    }
    match costs.measure("criterion message", || benches::parse_criterion_message(bytes)) {
        Ok(()) => is_accepted = true,
        Err(error) => reasons += &error.to_string(),
    }
    match costs.measure("pytest report", || benches::parse_pytest_report(bytes)) {
        Ok(()) => is_accepted = true,
        Err(error) => reasons += &error.to_string(),
    }
    if is_accepted { Ok(()) } else { Err(Error::usage(reasons)) }
}
