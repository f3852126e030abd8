//! Keeping the CPU time of a monitor within its budget.

use cli::terminal::note;
use cli::time::format_share;
use cli::units;
use engine::measure::metered_loop_error::MeteredLoopError;

use crate::monitor::accumulator::LoopId;
use crate::monitor::budget::{BudgetFinding, CpuTime, StretchedPeriod};
use crate::monitor::session::interval_clocks::IntervalDeltas;
use crate::monitor::session::{Probe, Session};

impl Session {
    /// Lengthens the periods of the probes if they used more CPU time than the budget, and shortens
    /// them again when they need less.
    pub fn enforce_budget(&mut self, deltas: &IntervalDeltas, probes_ns: Option<u64>) {
        let Some(monitor) = deltas.monitor_time() else { return };
        let cpu = CpuTime { monitor, probes: probes_ns.map(|ns| deltas.probe_time(ns)) };
        let Some(finding) = self.budget.record(cpu) else { return };
        match finding {
            BudgetFinding::ProbesExceed { probes } => {
                let used = self.format_used("the probes", probes);
                match self.change_periods(StretchedPeriod::longer) {
                    Some(periods) => {
                        self.stretches += 1;
                        note(false, &format!("{used}; lengthened their periods: {periods}"));
                    }
                    None => self.report_budget(&format!(
                        "{used}; their periods cannot be lengthened further: increase --budget or use fewer probes"
                    )),
                }
            }
            BudgetFinding::OthersExceed { monitor, probes } => {
                let used = self.format_used("the monitor", monitor);
                // Recording the switches of all CPUs is what can be given up first.
                if deltas.is_mostly_recording()
                    && let Some(flight) = &mut self.flight
                    && flight.hindsight.reduce_to_own_threads()
                {
                    return note(
                        false,
                        &format!(
                            "{used}; flight records now have only the switches of the probes: increase --budget to record all CPUs"
                        ),
                    );
                }
                let probes = format_core_share(probes);
                self.report_budget(&format!(
                    "{used}; its probes used {probes}: scrape less often, watch fewer meters, or increase --budget"
                ));
            }
            BudgetFinding::ProbesHaveRoom { probes } => {
                self.is_budget_reported = false;
                let used = self.format_used("the probes", probes);
                if let Some(periods) = self.change_periods(StretchedPeriod::shorter) {
                    note(self.setup.quiet, &format!("{used}; shortened their periods: {periods}"));
                }
            }
            BudgetFinding::Kept => self.is_budget_reported = false,
        }
    }

    fn format_used(&self, name: &str, share: f64) -> String {
        let [used, budget] = [share, self.setup.budget].map(format_core_share);
        format!("{name} used {used} of a core and may use {budget}")
    }

    /// Reports that the budget is not kept, once until it is kept again.
    fn report_budget(&mut self, message: &str) {
        if !std::mem::replace(&mut self.is_budget_reported, true) {
            note(false, message);
        }
    }

    /// Restarts the probes whose period changes. Returns the new periods for a message, or `None`
    /// if there are none.
    fn change_periods(
        &mut self,
        new_period: impl Fn(StretchedPeriod) -> Option<StretchedPeriod>,
    ) -> Option<String> {
        let (mut changed, unchanged): (Vec<Probe>, Vec<Probe>) = std::mem::take(&mut self.probes)
            .into_iter()
            .partition(|probe| new_period(probe.period).is_some());
        self.probes = unchanged;
        // Stopping them one after the other would take the sum of their periods.
        for probe in &changed {
            probe.running.request_stop();
        }
        let failures: Vec<Option<MeteredLoopError>> =
            changed.iter_mut().map(|probe| probe.running.stop()).collect();
        self.ended_loops.extend(changed.iter().map(|probe| LoopId::from(&probe.scenario)));
        // The last ticks, since no later poll will see these meters.
        self.accumulator.record(changed.iter().map(Probe::poll));
        let mut periods = Vec::new();
        for (probe, failure) in changed.into_iter().zip(failures) {
            let Some(new_period) = new_period(probe.period) else { continue };
            let name = probe.scenario.subject.name();
            let period = units::format_exact_duration(new_period.period());
            if let Some(reason) = failure.or(self.start_probe(probe.scenario, new_period).err()) {
                self.probes_ended += 1;
                note(false, &format!("{name} {period}: {reason}"));
            }
            periods.push(format!("{name} {period}"));
        }
        if !periods.is_empty() { Some(periods.join(", ")) } else { None }
    }
}

fn format_core_share(share: f64) -> String {
    format_share((share * 1e6).round() as u64, 1_000_000)
}
