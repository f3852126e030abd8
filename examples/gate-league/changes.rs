//! What a change does to a loop: to the ticks that were recorded without one.

/// A change, from the lateness of a round's ticks to what it would have been.
#[derive(Clone, Copy)]
pub(crate) struct Change {
    pub(crate) name: &'static str,
    kind: Kind,
}

#[derive(Clone, Copy)]
enum Kind {
    /// Every tick, by so many percent.
    All(i64),
    /// The last twentieth, by so many percent.
    Tail(i64),
}

pub(crate) const CHANGES: [Change; 7] = [
    Change { name: "nothing", kind: Kind::All(0) },
    Change { name: "all +5 %", kind: Kind::All(5) },
    Change { name: "all +10 %", kind: Kind::All(10) },
    Change { name: "all +20 %", kind: Kind::All(20) },
    Change { name: "all +50 %", kind: Kind::All(50) },
    Change { name: "all +100 %", kind: Kind::All(100) },
    Change { name: "tail +100 %", kind: Kind::Tail(100) },
];

impl Change {
    /// A round's ticks as they would have been.
    pub(crate) fn of(&self, ticks: &[(u64, i64)]) -> Vec<(u64, i64)> {
        let by = |late: i64, percent: i64| late + late * percent / 100;
        let (percent, from) = match self.kind {
            Kind::All(percent) => (percent, i64::MIN),
            Kind::Tail(percent) => {
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
