//! The environment that two measurements must share so that they are comparable.
//!
//! Different machines, kernels or settings cause real differences, but not differences between the
//! programs. A comparison across them gives an interval around the wrong number.

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::report::{Host, Report};

/// The properties of a machine that affect lateness. A property is null if the platform does not
/// report it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct EnvironmentKey {
    /// Operating system.
    pub os: String,
    /// Architecture.
    pub arch: String,
    /// CPU model.
    pub cpu_model: Option<String>,
    /// CPUs online.
    #[serde(rename = "cpus")]
    pub cpus_online: Option<u64>,
    /// Kernel release.
    pub kernel: Option<String>,
    /// Preemption model of the kernel.
    pub preempt: Option<String>,
    /// The kernel's clock source.
    pub clock_source: Option<String>,
    /// Hypervisor or container technology; also null on bare metal.
    pub hypervisor: Option<String>,
    /// Timer slack of the measuring thread.
    pub timer_slack_ns: Option<u64>,
    /// Frequency governor of the first CPU.
    pub governor: Option<String>,
    /// CPU quota of the control group, in CPUs.
    pub quota_cpus: Option<f64>,
}

/// A field that differs between two sides, with both values as text.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Difference {
    /// Name of the field.
    pub field: String,
    /// Value on side A.
    pub a: String,
    /// Value on side B.
    pub b: String,
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {} against {}", self.field, self.a, self.b)
    }
}

impl EnvironmentKey {
    /// Returns the key of a machine.
    #[must_use]
    pub fn from_host(host: &Host) -> Self {
        Self {
            os: host.os.clone(),
            arch: host.arch.clone(),
            cpu_model: host.cpu_model.clone(),
            cpus_online: host.cpus_online,
            kernel: host.kernel.clone(),
            preempt: host.preempt.clone(),
            clock_source: host.clock_source.clone(),
            hypervisor: host.hypervisor.clone(),
            timer_slack_ns: host.timer_slack_ns,
            governor: host.governor.clone(),
            quota_cpus: host.quota_cpus,
        }
    }

    /// Returns the key of a run: that of its machine, with the timer slack of the plan.
    #[must_use]
    pub fn from_report(report: &Report) -> Self {
        let key = Self::from_host(&report.host);
        Self { timer_slack_ns: report.plan.timer_slack_ns.or(key.timer_slack_ns), ..key }
    }

    /// Returns every field that differs, with `self` as side A. A value that only one side reports
    /// also differs: the same machine would have reported it both times.
    #[must_use]
    pub fn differences(&self, other: &Self) -> Vec<Difference> {
        let mut differences = Vec::new();
        for ((field, a), (_, b)) in self.fields().into_iter().zip(other.fields()) {
            if a != b {
                let field = field.to_owned();
                differences.push(Difference { field, a: format_value(a), b: format_value(b) });
            }
        }
        differences
    }

    fn fields(&self) -> [(&'static str, Option<String>); 11] {
        [
            ("operating system", Some(self.os.clone())),
            ("architecture", Some(self.arch.clone())),
            ("CPU model", self.cpu_model.clone()),
            ("CPUs online", self.cpus_online.map(|n| n.to_string())),
            ("kernel", self.kernel.clone()),
            ("preemption model", self.preempt.clone()),
            ("clock source", self.clock_source.clone()),
            ("hypervisor", self.hypervisor.clone()),
            ("timer slack", self.timer_slack_ns.map(format_ns)),
            ("governor", self.governor.clone()),
            ("CPU quota", self.quota_cpus.map(|cpus| cpus.to_string())),
        ]
    }
}

/// Formats a time exactly, such as `500us`.
pub(crate) fn format_ns(ns: u64) -> String {
    humantime::format_duration(Duration::from_nanos(ns)).to_string()
}

fn format_value(value: Option<String>) -> String {
    value.unwrap_or("unknown".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key() -> EnvironmentKey {
        EnvironmentKey {
            os: "linux".into(),
            arch: "x86_64".into(),
            cpu_model: Some("Some CPU".into()),
            cpus_online: Some(4),
            kernel: Some("6.1.0".into()),
            preempt: Some("PREEMPT_DYNAMIC".into()),
            clock_source: Some("tsc".into()),
            hypervisor: None,
            timer_slack_ns: Some(50_000),
            governor: None,
            quota_cpus: None,
        }
    }

    #[test]
    fn differences_name_field_and_values() {
        let other = EnvironmentKey {
            os: "freebsd".into(),
            arch: "aarch64".into(),
            cpu_model: None,
            cpus_online: Some(8),
            kernel: Some("6.2.0".into()),
            preempt: Some("PREEMPT_RT".into()),
            clock_source: Some("hpet".into()),
            hypervisor: Some("hypervisor (KVM)".into()),
            timer_slack_ns: Some(1),
            governor: Some("powersave".into()),
            quota_cpus: Some(1.5),
        };
        let shown: Vec<String> =
            key().differences(&other).iter().map(ToString::to_string).collect();
        assert_eq!(
            shown,
            [
                "operating system: linux against freebsd",
                "architecture: x86_64 against aarch64",
                "CPU model: Some CPU against unknown",
                "CPUs online: 4 against 8",
                "kernel: 6.1.0 against 6.2.0",
                "preemption model: PREEMPT_DYNAMIC against PREEMPT_RT",
                "clock source: tsc against hpet",
                "hypervisor: unknown against hypervisor (KVM)",
                "timer slack: 50us against 1ns",
                "governor: unknown against powersave",
                "CPU quota: unknown against 1.5",
            ]
        );
        assert!(key().differences(&key()).is_empty());
    }

    #[test]
    fn unknown_key_fields_are_rejected() {
        let text = serde_json::to_string(&key()).unwrap();
        assert_eq!(serde_json::from_str::<EnvironmentKey>(&text).unwrap(), key());
        assert!(serde_json::from_str::<EnvironmentKey>(&text.replace("cpus", "cores")).is_err());
    }
}
