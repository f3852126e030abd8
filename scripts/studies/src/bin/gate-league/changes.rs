//! Changes of a loop, which are applied to ticks that were recorded without them.

/// A change of a loop's lateness.
#[derive(Clone, Copy)]
pub(crate) struct Change {
    pub(crate) name: &'static str,
    kind: ChangeKind,
}

#[derive(Clone, Copy)]
enum ChangeKind {
    /// Every tick is later by this percentage.
    All(i64),
    /// The last twentieth of the ticks is later by this percentage.
    Tail(i64),
}

pub(crate) const CHANGES: [Change; 9] = [
    Change { name: "nothing", kind: ChangeKind::All(0) },
    Change { name: "all +1 %", kind: ChangeKind::All(1) },
    Change { name: "all +2 %", kind: ChangeKind::All(2) },
    Change { name: "all +5 %", kind: ChangeKind::All(5) },
    Change { name: "all +10 %", kind: ChangeKind::All(10) },
    Change { name: "all +20 %", kind: ChangeKind::All(20) },
    Change { name: "all +50 %", kind: ChangeKind::All(50) },
    Change { name: "all +100 %", kind: ChangeKind::All(100) },
    Change { name: "tail +100 %", kind: ChangeKind::Tail(100) },
];

impl Change {
    /// Returns the ticks of a round with the change.
    pub(crate) fn apply(&self, ticks: &[(u64, i64)]) -> Vec<(u64, i64)> {
        let by = |late: i64, percent: i64| late + late * percent / 100;
        let (percent, from) = match self.kind {
            ChangeKind::All(percent) => (percent, i64::MIN),
            ChangeKind::Tail(percent) => {
                let mut sorted: Vec<i64> = ticks.iter().map(|tick| tick.1).collect();
                sorted.sort_unstable();
                (percent, sorted.get(sorted.len() * 19 / 20).copied().unwrap_or(i64::MAX))
            }
        };
        ticks
            .iter()
            .map(|&(index, late)| (index, if late >= from { by(late, percent) } else { late }))
            .collect()
    }
}
