//! Keeping the CPU time of a monitor within its budget.

use cli::terminal::note;
use cli::time::format_share;
use cli::units;
use engine::measure::metered_loop_error::MeteredLoopError;

use crate::meters::MeterClocks;
use crate::monitor::budget::{CpuTime, StretchedPeriod, WindowShares};
use crate::monitor::loop_id::LoopId;
use crate::monitor::session::Session;
use crate::monitor::session::interval_clocks::IntervalDeltas;
use crate::monitor::session::probes::Probe;

impl Session {
    /// Makes the monitor cheaper if it used more CPU time than the budget, beginning with its most
    /// expensive part. Undoes that when there is room again.
    pub fn enforce_budget(&mut self, deltas: &IntervalDeltas, probes_ns: Option<u64>) {
        let Some(monitor) = deltas.monitor_time() else { return };
        let cpu = CpuTime { monitor, probes: probes_ns.map(|ns| deltas.probe_time(ns)) };
        let Some(shares) = self.budget.record(cpu) else { return };
        let max_share = self.budget.max_share();
        if !shares.exceeds(max_share) {
            self.is_budget_reported = false;
            return self.restore_periods(shares);
        }
        // Recording the switches of all CPUs is what can be given up first.
        if deltas.is_mostly_recording()
            && let Some(flight) = &mut self.flight
            && flight.hindsight.reduce_to_own_threads()
        {
            return self.report_change(
                shares,
                "flight records now have only the switches of the probes: increase --budget to record all CPUs",
            );
        }
        let mut parts = [Self::lengthen_probes, Self::lengthen_polls];
        if shares.others() > shares.probes {
            parts.reverse();
        }
        let is_changed = parts.iter().any(|lengthen| lengthen(self, shares));
        if !is_changed {
            let used = self.format_used(shares);
            self.report_budget(&format!(
                "{used}; its periods cannot be lengthened further: use fewer probes, scrape less often, watch fewer meters, or increase --budget"
            ));
        }
    }

    /// Lengthens the periods of the probes. Returns whether it changed one.
    fn lengthen_probes(&mut self, shares: WindowShares) -> bool {
        let Some(periods) = self.change_periods(StretchedPeriod::longer) else { return false };
        self.stretches += 1;
        self.report_change(shares, &format!("lengthened the periods of its probes: {periods}"));
        true
    }

    /// Lengthens the time between polls. Returns whether it did.
    fn lengthen_polls(&mut self, shares: WindowShares) -> bool {
        let Some(longer) = self.poll_interval.longer().filter(|_| self.meters.is_some()) else {
            return false;
        };
        self.poll_interval = longer;
        let interval = units::format_exact_duration(longer.period());
        self.report_change(shares, &format!("now reads the meters every {interval}"));
        true
    }

    fn restore_periods(&mut self, shares: WindowShares) {
        let max_share = self.budget.max_share();
        let used = self.format_used(shares);
        if shares.has_room_for_others(max_share)
            && let Some(shorter) = self.poll_interval.shorter()
        {
            self.poll_interval = shorter;
            let interval = units::format_exact_duration(shorter.period());
            note(self.setup.quiet, &format!("{used}; reads the meters every {interval} again"));
        } else if shares.has_room_for_probes(max_share)
            && let Some(periods) = self.change_periods(StretchedPeriod::shorter)
        {
            note(
                self.setup.quiet,
                &format!("{used}; shortened the periods of its probes: {periods}"),
            );
        }
    }

    fn report_change(&self, shares: WindowShares, change: &str) {
        note(false, &format!("{}; {change}", self.format_used(shares)));
    }

    fn format_used(&self, shares: WindowShares) -> String {
        let [monitor, probes, budget] =
            [shares.monitor, shares.probes, self.budget.max_share()].map(format_core_share);
        format!(
            "the monitor used {monitor} of a core, its probes {probes} of that, and may use {budget}"
        )
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
        let (mut changed, unchanged): (Vec<Probe>, Vec<Probe>) =
            std::mem::take(&mut self.probes.active)
                .into_iter()
                .partition(|probe| new_period(probe.period).is_some());
        self.probes.active = unchanged;
        // Stopping them one after the other would take the sum of their periods.
        for probe in &changed {
            probe.running.request_stop();
        }
        let failures: Vec<Option<MeteredLoopError>> =
            changed.iter_mut().map(|probe| probe.running.stop()).collect();
        self.probes.ended_loops.extend(changed.iter().map(|probe| LoopId::from(&probe.scenario)));
        // The last ticks, since no later poll will see these meters.
        self.accumulator.record(&MeterClocks::read(), changed.iter().map(Probe::poll));
        let mut periods = Vec::new();
        for (probe, failure) in changed.into_iter().zip(failures) {
            let Some(new_period) = new_period(probe.period) else { continue };
            let name = probe.scenario.subject.name();
            let period = units::format_exact_duration(new_period.period());
            let (limits, flight) = (&self.setup.limits, self.flight.as_ref());
            let started = self.probes.start(probe.scenario, new_period, limits, flight);
            if let Some(reason) = failure.or(started.err()) {
                self.probes.ended += 1;
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
