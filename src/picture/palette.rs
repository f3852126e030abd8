//! Signs of series that a reader can tell apart, colour-blind or not: a colour of the Okabe-Ito
//! set, a shape and a dash.
//!
//! A name has one sign, on every page and for ever: the known ones by this table, all others by
//! their hash. Where two would look alike on one page, the later in the alphabet moves on.

use std::collections::{BTreeMap, BTreeSet};

pub type Rgb = (u8, u8, u8);

/// Okabe and Ito, "Color Universal Design", 2008: eight colours, here with grey for yellow, which
/// fades on white.
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
const BLUE: usize = 0;
const ORANGE: usize = 1;
const GREEN: usize = 2;
const PINK: usize = 3;
const SKY: usize = 4;
const VERMILION: usize = 5;
const BLACK: usize = 6;
const GREY: usize = 7;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    Circle,
    Triangle,
    /// A filled square, standing on a corner.
    Diamond,
}

const SHAPES: [Shape; 3] = [Shape::Circle, Shape::Triangle, Shape::Diamond];

/// How a line is drawn, lengths in pixels.
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

/// How a series looks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sign {
    pub colour: Rgb,
    pub shape: Shape,
    pub dash: Dash,
}

/// A colour, and a form: which shape and which dash.
type Slot = (usize, usize);

/// Every shape with every dash.
const FORMS: usize = SHAPES.len() * DASHES.len();

/// Of all that is measured by default no two share a colour, and what tends to coincide differs in
/// its dash; the variants of a subject have its colour.
const KNOWN: [(&str, Slot); 23] = [
    ("os-interval", (BLUE, 0)),
    ("os-interval-delay", (BLUE, 4)),
    ("os-interval-skip", (BLUE, 8)),
    ("os-interval-group", (BLUE, 5)),
    ("os-sleep", (BLUE, 1)),
    ("os-timeout", (BLUE, 6)),
    ("os-interval-precise", (GREEN, 2)),
    ("periodic-interval", (SKY, 4)),
    ("tokio-interval", (VERMILION, 2)),
    ("tokio-interval-delay", (VERMILION, 4)),
    ("tokio-interval-skip", (VERMILION, 6)),
    ("tokio-sleep", (ORANGE, 0)),
    ("tokio-sleep-reused", (ORANGE, 4)),
    ("tokio-sleep-reused-boxed", (ORANGE, 8)),
    ("tokio-timeout", (PINK, 6)),
    ("tokio-busy", (PINK, 1)),
    ("tokio-busy-interval", (PINK, 5)),
    ("busypoll-interval", (SKY, 6)),
    ("busypoll-parked", (SKY, 1)),
    ("busypoll-io-uring", (SKY, 5)),
    ("nanosleep", (GREY, 3)),
    ("spin", (BLACK, 7)),
    ("scripted", (GREEN, 4)),
];

/// The sign of a slot: forms 0 to 2 are solid, 3 to 5 dashed, 6 to 8 dotted.
fn sign((colour, form): Slot) -> Sign {
    Sign {
        colour: COLOURS[colour],
        shape: SHAPES[form % SHAPES.len()],
        dash: DASHES[form / SHAPES.len()],
    }
}

/// The sign of series number `i`, where series have no names of their own; neighbours differ in
/// everything.
pub fn nth(i: usize) -> Sign {
    let shape = SHAPES[(i / COLOURS.len() + i) % SHAPES.len()];
    Sign { colour: COLOURS[i % COLOURS.len()], shape, dash: DASHES[i % DASHES.len()] }
}

/// The signs of everything on one page.
#[derive(Clone, Debug, Default)]
pub struct Signs {
    slots: BTreeMap<(String, usize), Slot>,
}

impl Signs {
    /// Of these names, each with the number of a variant, 0 for the plain one.
    pub fn of<'a>(names: impl IntoIterator<Item = (&'a str, usize)>) -> Self {
        let all: BTreeSet<(&'a str, usize)> = names.into_iter().collect();
        let mut signs = Self::default();
        let known =
            |name: &str| KNOWN.iter().find(|(known, _)| *known == name).map(|(_, slot)| *slot);
        let (of_table, others): (Vec<_>, Vec<_>) =
            all.iter().copied().partition(|(name, _)| known(name).is_some());
        let plain = |(name, _): (&'a str, usize)| name;
        for name in of_table.into_iter().map(plain).collect::<BTreeSet<_>>() {
            signs.slots.extend(known(name).map(|slot| ((name.to_owned(), 0), slot)));
        }
        for name in others.into_iter().map(plain).collect::<BTreeSet<_>>() {
            let slot = signs.free(hashed(name));
            signs.slots.insert((name.to_owned(), 0), slot);
        }
        for (name, variant) in all.into_iter().filter(|(_, variant)| *variant > 0) {
            // Its colour, another form; in turn through both shapes and dashes.
            let (colour, form) = signs.slots[&(name.to_owned(), 0)];
            let forms = (0..FORMS).map(|n| (colour, (form + (variant + n) * 4) % FORMS));
            let slot =
                forms.into_iter().find(|slot| !signs.is_taken(*slot)).unwrap_or((colour, form));
            signs.slots.insert((name.to_owned(), variant), slot);
        }
        signs
    }

    /// How one of them looks.
    pub fn sign(&self, name: &str, variant: usize) -> Sign {
        sign(self.slots.get(&(name.to_owned(), variant)).copied().unwrap_or_else(|| hashed(name)))
    }

    fn is_taken(&self, slot: Slot) -> bool {
        self.slots.values().any(|other| *other == slot)
    }

    /// The first slot from here on whose colour nothing has; without one, that nothing has at all.
    fn free(&self, (colour, form): Slot) -> Slot {
        let colours = (0..COLOURS.len()).map(|n| (colour + n) % COLOURS.len());
        let unused = |colour: &usize| !self.slots.values().any(|(other, _)| other == colour);
        let fresh = colours.clone().find(unused).map(|colour| (colour, form));
        let mut any = (0..FORMS)
            .flat_map(|n| colours.clone().map(move |colour| (colour, (form + n) % FORMS)));
        fresh.or_else(|| any.find(|slot| !self.is_taken(*slot))).unwrap_or((colour, form))
    }
}

/// FNV-1a, 64 bits: the same on every machine and in every version.
fn hashed(name: &str) -> Slot {
    let hash = name.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    let slot = (hash % (COLOURS.len() * FORMS) as u64) as usize;
    (slot % COLOURS.len(), slot / COLOURS.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all_differ(names: &[(&str, usize)]) {
        let signs = Signs::of(names.iter().copied());
        let all: Vec<Sign> =
            names.iter().map(|(name, variant)| signs.sign(name, *variant)).collect();
        for (i, sign) in all.iter().enumerate() {
            assert!(!all[..i].contains(sign), "{:?} looks like another", names[i]);
        }
    }

    #[test]
    fn a_name_has_its_sign_whatever_stands_beside_it() {
        let alone = Signs::of([("os-interval", 0)]).sign("os-interval", 0);
        let crowd = Signs::of(
            KNOWN.iter().map(|(name, _)| (*name, 0)).chain([("aaa", 0), ("os-interval", 1)]),
        );
        assert_eq!(crowd.sign("os-interval", 0), alone);
        assert_eq!(alone.colour, COLOURS[BLUE]);
        let stranger = |beside| Signs::of([("mine", 0), (beside, 0)]).sign("mine", 0);
        assert_eq!(stranger("os-interval"), stranger("tokio-busy"));
        assert_ne!(
            stranger("spin").colour,
            Signs::of([("spin", 0)]).sign("spin", 0).colour,
            "it moves on"
        );
    }

    #[test]
    fn no_two_on_a_page_look_alike() {
        all_differ(&KNOWN.map(|(name, _)| (name, 0)));
        let threads: Vec<String> = (0..40).map(|i| format!("cyclictest/thread-{i}")).collect();
        all_differ(&threads.iter().map(|name| (name.as_str(), 0)).collect::<Vec<_>>());
        all_differ(&[
            ("os-interval", 0),
            ("os-interval", 1),
            ("os-interval", 2),
            ("os-interval-delay", 0),
            ("x", 0),
        ]);
        // As far as there are colours, none comes twice.
        let few: Vec<(&str, usize)> =
            threads.iter().take(8).map(|name| (name.as_str(), 0)).collect();
        let signs = Signs::of(few.iter().copied());
        let colours: BTreeSet<Rgb> =
            few.iter().map(|(name, _)| signs.sign(name, 0).colour).collect();
        assert_eq!(colours.len(), 8);
    }
}
