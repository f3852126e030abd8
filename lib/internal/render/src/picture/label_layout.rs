//! Places names next to the marks of a picture without overlaps.

use std::ops::Range;

/// A rectangle in pixels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rect {
    pub left: i32,
    pub top: i32,
    pub right: i32,
    pub bottom: i32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LabelPosition {
    /// Edge of the text next to the marker.
    pub x: i32,
    /// Middle of the text.
    pub y: i32,
    /// Whether the text is to the left of `x`.
    pub is_left: bool,
    /// Whether the text is so far from its mark that a line should connect them.
    pub is_far: bool,
}

/// A mark to be labelled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Marker {
    pub at: (i32, i32),
    /// Extent of its interval bars, which form a cross.
    pub bars: Rect,
    pub name_width: i32,
}

/// Half the size of a mark with its ring.
const HALF_MARK: i32 = 10;
/// Distance between a mark or a bar and its name.
const GAP: i32 = 4;
/// Half the height of a line of text.
const HALF_LINE: i32 = 8;
/// Half the width of a bar with its margin.
const HALF_BAR: i32 = 2;
/// Maximum distance of a name at the end of its bar from the mark.
const MAX_REACH: i32 = 60;
/// Step of the search.
const STEP: i32 = 9;
const STEPS: i32 = 30;

impl Marker {
    /// Returns the rectangles of the mark and of its interval bars.
    fn extents(self) -> [Rect; 3] {
        let (x, y) = self.at;
        let Rect { left, top, right, bottom } = self.bars;
        [
            around(x..x, y..y, HALF_MARK),
            around(left..right, y..y, HALF_BAR),
            around(x..x, top..bottom, HALF_BAR),
        ]
    }
}

/// Returns a rectangle with a margin.
fn around(x: Range<i32>, y: Range<i32>, margin: i32) -> Rect {
    Rect {
        left: x.start - margin,
        top: y.start - margin,
        right: x.end + margin,
        bottom: y.end + margin,
    }
}

/// Places a name next to each mark, from the top down. The search begins at the right and left ends
/// of the interval bar and continues up and down, until a position is within `bounds` and covers
/// neither a mark, a bar nor another name. If there is none, it may cover marks and bars, and as a
/// last resort the first position is used.
pub fn place_labels(marks: &[Marker], bounds: Rect) -> Vec<LabelPosition> {
    let drawn: Vec<Rect> = marks.iter().flat_map(|mark| mark.extents()).collect();
    let mut names: Vec<Rect> = Vec::new();
    let mut order: Vec<usize> = (0..marks.len()).collect();
    order.sort_by_key(|&i| marks[i].at.1);
    let mut labels = vec![None; marks.len()];
    for i in order {
        let label = place_label(marks[i], &drawn, &names, bounds);
        names.push(extent(label, marks[i].name_width));
        labels[i] = Some(label);
    }
    labels.into_iter().flatten().collect()
}

fn place_label(mark: Marker, drawn: &[Rect], names: &[Rect], bounds: Rect) -> LabelPosition {
    let positions = label_positions(mark);
    let covers = |text: Rect, others: &[Rect]| others.iter().any(|other| overlap(text, *other));
    // A name too wide for the bounds may still avoid the other names.
    let unlimited = Rect { right: i32::MAX, ..bounds };
    for (avoided, bounds) in [(drawn, bounds), (&[], bounds), (&[], unlimited)] {
        for position in &positions {
            let text = extent(*position, mark.name_width);
            if within(text, bounds) && !covers(text, names) && !covers(text, avoided) {
                return *position;
            }
        }
    }
    positions[0]
}

/// Returns the positions of the search.
fn label_positions(mark: Marker) -> Vec<LabelPosition> {
    let (x, middle) = mark.at;
    let reach = |bar: i32| bar.clamp(HALF_MARK, MAX_REACH) + GAP;
    let at_end = |x, is_left| LabelPosition { x, y: middle, is_left, is_far: false };
    let mut positions = vec![
        at_end(x + reach(mark.bars.right - x), false),
        at_end(x - reach(x - mark.bars.left), true),
    ];
    for step in 1..STEPS {
        let reach = HALF_MARK + GAP + 2 * step;
        for y in [middle + step * STEP, middle - step * STEP] {
            positions.push(LabelPosition { x: x + reach, y, is_left: false, is_far: true });
            positions.push(LabelPosition { x: x - reach, y, is_left: true, is_far: true });
        }
    }
    positions
}

fn extent(label: LabelPosition, width: i32) -> Rect {
    let left = if label.is_left { label.x - width } else { label.x };
    Rect { left, top: label.y - HALF_LINE, right: left + width, bottom: label.y + HALF_LINE }
}

fn overlap(a: Rect, b: Rect) -> bool {
    a.left < b.right && b.left < a.right && a.top < b.bottom && b.top < a.bottom
}

fn within(a: Rect, bounds: Rect) -> bool {
    a.left >= bounds.left
        && a.top >= bounds.top
        && a.right <= bounds.right
        && a.bottom <= bounds.bottom
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const BOUNDS: Rect = Rect { left: 0, top: 0, right: 900, bottom: 500 };

    /// A mark with bars of these lengths to each side.
    fn marker(at: (i32, i32), across: i32, up: i32) -> Marker {
        let (x, y) = at;
        let bars = Rect { left: x - across, top: y - up, right: x + across, bottom: y + up };
        Marker { at, bars, name_width: 80 }
    }

    #[test]
    fn lone_name_is_right_of_mark() {
        let mark = |x| marker((x, 100), 9, 0);
        assert_eq!(
            place_labels(&[mark(100)], BOUNDS),
            [LabelPosition { x: 114, y: 100, is_left: false, is_far: false }]
        );
        assert!(place_labels(&[mark(880)], BOUNDS)[0].is_left);
    }

    #[test]
    fn wide_names_do_not_overlap() {
        let narrow = Rect { left: 0, top: 0, right: 120, bottom: 500 };
        let marks = [(50, 100), (52, 104), (48, 110)].map(|at| marker(at, 2, 2));
        let placed = place_labels(&marks, narrow).into_iter();
        let texts: Vec<Rect> = placed.map(|label| extent(label, 80)).collect();
        for (i, text) in texts.iter().enumerate() {
            assert!(texts[..i].iter().all(|other| !overlap(*text, *other)), "{texts:?}");
        }
    }

    #[test]
    fn long_bar_does_not_cross_name() {
        let long = marker((400, 200), 150, 100);
        let [label] = place_labels(&[long], BOUNDS)[..] else { panic!("one name") };
        assert_eq!((label.y, label.is_far), (218, true), "below the bar");
    }

    proptest! {
        #[test]
        fn names_do_not_overlap(marks in proptest::collection::vec((300_i32..340, 200_i32..240), 1..20)) {
            let marks: Vec<_> = marks.into_iter().map(|at| marker(at, 9, 9)).collect();
            let boxes: Vec<Rect> = place_labels(&marks, BOUNDS).into_iter().map(|label| extent(label, 80)).collect();
            for (i, a) in boxes.iter().enumerate() {
                prop_assert!(within(*a, BOUNDS));
                prop_assert!(boxes[..i].iter().all(|b| !overlap(*a, *b)));
            }
        }

        #[test]
        fn no_bar_crosses_a_name(at in (0_i32..900, 40_i32..460), across in 0_i32..300, up in 0_i32..300) {
            let mark = marker(at, across, up);
            let text = extent(place_labels(&[mark], BOUNDS)[0], mark.name_width);
            prop_assert!(mark.extents().iter().all(|other| !overlap(text, *other)), "{:?}", text);
        }
    }
}
