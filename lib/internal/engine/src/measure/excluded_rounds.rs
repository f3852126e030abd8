//! Descriptions of the rounds that are excluded, because a setting changed during them.

use cli::words::pluralize;
use files::report::{Change, ExcludedRound, Warning};

/// Code of the warning about excluded rounds.
pub const SETTINGS_CHANGED: &str = "settings-changed";

/// Returns a warning about the excluded rounds of a subject, or `None` without one.
pub fn exclusion_warning(name: &str, excluded: &[ExcludedRound]) -> Option<Warning> {
    let count = pluralize(excluded.len() as u64, "round");
    change_warning(name, &count, excluded.iter().flat_map(|round| &round.changes))
}

/// Returns a warning about excluded rounds, with their number, or `None` without a change.
pub fn change_warning<'a>(
    name: &str,
    count: &str,
    changes: impl Iterator<Item = &'a Change>,
) -> Option<Warning> {
    let changes = describe_changes(changes);
    (!changes.is_empty()).then(|| {
        Warning::new(
            SETTINGS_CHANGED,
            format!("{count} of {name} excluded: {changes}"),
            "keep other programs from changing settings while osjitter measures",
        )
    })
}

/// Describes changes of settings, each once.
pub fn describe_changes<'a>(changes: impl IntoIterator<Item = &'a Change>) -> String {
    const MAX_DESCRIBED: usize = 4;
    let mut described: Vec<String> = Vec::new();
    for Change { what, from, to } in changes {
        let text = format!("the {what} was changed from {from} to {to}");
        if !described.contains(&text) {
            described.push(text);
        }
    }
    let others = described.len().saturating_sub(MAX_DESCRIBED);
    described.truncate(MAX_DESCRIBED);
    let rest = if others > 0 { format!(", and {others} more") } else { String::new() };
    described.join(", ") + &rest
}
