//! Colours and marks a reader can tell apart, colour-blind or not: the Okabe-Ito set, and a shape for each turn of it.

pub type Rgb = (u8, u8, u8);

/// Okabe and Ito, "Color Universal Design", 2008: eight colours, here with grey for yellow, which fades on white.
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
    /// A filled square, standing on a corner.
    Diamond,
}

const SHAPES: [Shape; 3] = [Shape::Circle, Shape::Triangle, Shape::Diamond];

/// Colour and shape of series number `i`.
pub fn style(i: usize) -> (Rgb, Shape) {
    (COLOURS[i % COLOURS.len()], SHAPES[(i / COLOURS.len() + i) % SHAPES.len()])
}

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

/// The dash of series number `i`: neighbours differ, so that curves which coincide are all seen.
pub fn dash(i: usize) -> Dash {
    match i % 3 {
        0 => Dash::Solid,
        1 => Dash::Dashed { on: 12, off: 8 },
        _ => Dash::Dashed { on: 4, off: 6 },
    }
}
