//! Signs of series that readers can distinguish even if they are colour-blind: a colour of the
//! Okabe-Ito set, a shape and a dash.
//!
//! A name has the same sign on every page and in every version: subjects by their table, other names
//! by a hash. If two would look alike on one page, the one that is later in the alphabet gets another
//! sign.

use std::collections::BTreeMap;

use files::subjects;
#[cfg(doc)]
use files::subjects::Colour;

pub type Rgb = (u8, u8, u8);

/// The values of the colours, in the order of [`Colour`].
const COLOURS: [Rgb; 8] = [
    (0, 114, 178),
    (230, 159, 0),
    (0, 158, 115),
    (204, 121, 167),
    (86, 180, 233),
    (213, 94, 0),
    (0, 0, 0),
    (130, 130, 130),
];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    Circle,
    Triangle,
    /// A filled square rotated by 45 degrees.
    Diamond,
}

const SHAPES: [Shape; 3] = [Shape::Circle, Shape::Triangle, Shape::Diamond];

/// The dash of a line, with lengths in pixels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dash {
    Solid,
    /// With gaps, so that a line below shows through.
    Dashed {
        on: i32,
        off: i32,
    },
}

const DASHES: [Dash; 3] =
    [Dash::Solid, Dash::Dashed { on: 12, off: 8 }, Dash::Dashed { on: 4, off: 6 }];

/// The appearance of a series.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sign {
    pub colour: Rgb,
    pub shape: Shape,
    pub dash: Dash,
}

/// Indices of a colour and of a form, which is a combination of shape and dash.
type Slot = (usize, usize);

/// Number of combinations of shape and dash.
const FORMS: usize = SHAPES.len() * DASHES.len();

/// Returns the sign of a slot. Forms 0 to 2 are solid, 3 to 5 dashed, 6 to 8 dotted.
fn sign((colour, form): Slot) -> Sign {
    Sign {
        colour: COLOURS[colour],
        shape: SHAPES[form % SHAPES.len()],
        dash: DASHES[form / SHAPES.len()],
    }
}

/// Returns the sign of series number `i`, for series without names. Neighbours differ in colour,
/// shape and dash.
pub fn nth(i: usize) -> Sign {
    let shape = SHAPES[(i / COLOURS.len() + i) % SHAPES.len()];
    Sign { colour: COLOURS[i % COLOURS.len()], shape, dash: DASHES[i % DASHES.len()] }
}

/// The signs of all series on one page.
#[derive(Clone, Debug, Default)]
pub struct Signs {
    slots: BTreeMap<(String, usize), Slot>,
}

impl Signs {
    /// Assigns signs to names, each with the number of a variant, 0 for the plain one.
    pub fn from_names<'a>(names: impl IntoIterator<Item = (&'a str, usize)>) -> Self {
        let mut names: Vec<(&'a str, usize)> = names.into_iter().collect();
        names.sort_by_key(|name| *name);
        names.dedup();
        let mut plain: Vec<&str> = names.iter().map(|(name, _)| *name).collect();
        plain.dedup();
        let (known, others): (Vec<&str>, Vec<&str>) =
            plain.into_iter().partition(|name| known_slot(name).is_some());
        let mut signs = Self::default();
        for name in known {
            if let Some(slot) = known_slot(name) {
                signs.slots.insert((name.to_owned(), 0), slot);
            }
        }
        for name in others {
            let slot = signs.find_free(hash_slot(name));
            signs.slots.insert((name.to_owned(), 0), slot);
        }
        for (name, variant) in names {
            if variant > 0 {
                signs.add_variant(name, variant);
            }
        }
        signs
    }

    /// Assigns the colour of the plain name and another form to a variant, with alternating shapes
    /// and dashes.
    fn add_variant(&mut self, name: &str, variant: usize) {
        let (colour, form) = self.slots[&(name.to_owned(), 0)];
        let mut forms = (0..FORMS).map(|n| (form + (variant + n) * 4) % FORMS);
        let unused = forms.find(|form| !self.is_taken((colour, *form)));
        self.slots.insert((name.to_owned(), variant), (colour, unused.unwrap_or(form)));
    }

    /// Returns the sign of a variant of a name.
    pub fn sign(&self, name: &str, variant: usize) -> Sign {
        match self.slots.get(&(name.to_owned(), variant)) {
            Some(slot) => sign(*slot),
            None => sign(hash_slot(name)),
        }
    }

    fn is_taken(&self, slot: Slot) -> bool {
        self.slots.values().any(|other| *other == slot)
    }

    /// Whether a series of this colour has the same shape or the same dash.
    fn shares_look(&self, (colour, form): Slot) -> bool {
        let look = |form: usize| (form % SHAPES.len(), form / SHAPES.len());
        let (shape, dash) = look(form);
        let mut same_colour = self.slots.values().filter(|(taken, _)| *taken == colour);
        same_colour.any(|(_, taken)| look(*taken).0 == shape || look(*taken).1 == dash)
    }

    /// Returns the first slot, starting with this one, with an unused colour; if all colours are
    /// used, the first with an unused shape and dash of its colour, because not every picture has
    /// both; otherwise the first unused slot.
    fn find_free(&self, (colour, form): Slot) -> Slot {
        for colour in cycle(colour, COLOURS.len()) {
            if self.slots.values().all(|(taken, _)| *taken != colour) {
                return (colour, form);
            }
        }
        let slots = || {
            cycle(form, FORMS).flat_map(|form| cycle(colour, COLOURS.len()).map(move |c| (c, form)))
        };
        let free = slots().find(|slot| !self.shares_look(*slot));
        free.or_else(|| slots().find(|slot| !self.is_taken(*slot))).unwrap_or((colour, form))
    }
}

/// Returns all indices below `n`, in a cycle that begins with `first`.
fn cycle(first: usize, n: usize) -> impl Iterator<Item = usize> {
    (first..n).chain(0..first)
}

fn known_slot(name: &str) -> Option<Slot> {
    let (colour, form) = subjects::find(name)?.sign?;
    Some((colour as usize, form))
}

/// Hashes a name to a slot with FNV-1a (64 bits), which is the same on every machine and in every
/// version.
fn hash_slot(name: &str) -> Slot {
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    for byte in name.bytes() {
        hash = (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    }
    let slot = (hash % (COLOURS.len() * FORMS) as u64) as usize;
    (slot % COLOURS.len(), slot / COLOURS.len())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use files::subjects::{Colour, SUBJECTS};

    /// Returns the names of all subjects, each of which has a sign of its own.
    fn known_names() -> Vec<(&'static str, usize)> {
        assert!(SUBJECTS.iter().all(|subject| subject.sign.is_some()));
        SUBJECTS.iter().map(|subject| (subject.name, 0)).collect()
    }

    fn assert_all_differ(names: &[(&str, usize)]) {
        let signs = Signs::from_names(names.iter().copied());
        let used: Vec<Sign> =
            names.iter().map(|(name, variant)| signs.sign(name, *variant)).collect();
        for (i, sign) in used.iter().enumerate() {
            assert!(!used[..i].contains(sign), "{:?} looks like another", names[i]);
        }
    }

    #[test]
    fn signs_are_stable() {
        let alone = Signs::from_names([("os-interval", 0)]).sign("os-interval", 0);
        let crowd =
            Signs::from_names(known_names().into_iter().chain([("aaa", 0), ("os-interval", 1)]));
        assert_eq!(crowd.sign("os-interval", 0), alone);
        assert_eq!(alone.colour, COLOURS[Colour::Blue as usize]);
        let unlisted = |other| Signs::from_names([("mine", 0), (other, 0)]).sign("mine", 0);
        assert_eq!(unlisted("os-interval"), unlisted("tokio-busy"));
        assert_ne!(
            unlisted("spin").colour,
            Signs::from_names([("spin", 0)]).sign("spin", 0).colour,
            "a conflict changes the sign"
        );
    }

    #[test]
    fn signs_on_a_page_differ() {
        assert_all_differ(&known_names());
        let threads: Vec<String> = (0..40).map(|i| format!("cyclictest/thread-{i}")).collect();
        assert_all_differ(&threads.iter().map(|name| (name.as_str(), 0)).collect::<Vec<_>>());
        assert_all_differ(&[
            ("os-interval", 0),
            ("os-interval", 1),
            ("os-interval", 2),
            ("os-interval-delay", 0),
            ("x", 0),
        ]);
        // Up to three series of a colour differ in shape and in dash.
        let many: Vec<(&str, usize)> =
            threads.iter().take(24).map(|name| (name.as_str(), 0)).collect();
        let signs = Signs::from_names(many.iter().copied());
        let marks: BTreeSet<(Rgb, u8)> = many
            .iter()
            .map(|(name, _)| signs.sign(name, 0))
            .map(|s| (s.colour, s.shape as u8))
            .collect();
        assert_eq!(marks.len(), 24);
        // Colours repeat only when all are used.
        let few: Vec<(&str, usize)> =
            threads.iter().take(8).map(|name| (name.as_str(), 0)).collect();
        let signs = Signs::from_names(few.iter().copied());
        let colours: BTreeSet<Rgb> =
            few.iter().map(|(name, _)| signs.sign(name, 0).colour).collect();
        assert_eq!(colours.len(), 8);
    }
}
