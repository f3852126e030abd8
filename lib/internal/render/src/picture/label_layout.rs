//! Places names next to the marks of a picture without overlaps.

use cli::sort::sort_by_key;

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
    /// Distance from the middle to the ends of the interval bar.
    pub reach: i32,
    pub name_width: i32,
}

/// Half the height of a mark with its margin.
const HALF_MARK: i32 = 9;
/// Distance between a mark and its name.
const GAP: i32 = 4;
/// Half the height of a line of text.
const HALF_LINE: i32 = 8;
/// Step of the search.
const STEP: i32 = 9;
const STEPS: i32 = 14;

impl Marker {
    /// Returns the rectangle of the mark and its interval bar.
    fn extent(self) -> Rect {
        let (x, y) = self.at;
        Rect {
            left: x - self.reach,
            top: y - HALF_MARK,
            right: x + self.reach,
            bottom: y + HALF_MARK,
        }
    }
}

/// Places a name next to each mark, from the top down. The search begins to the right and left of
/// the mark and continues up and down, until a position is within `bounds` and covers neither a
/// mark nor another name. If there is none, the position next to the mark is used.
pub fn place_labels(marks: &[Marker], bounds: Rect) -> Vec<LabelPosition> {
    let mut occupied: Vec<Rect> = marks.iter().map(|mark| mark.extent()).collect();
    let mut order: Vec<usize> = (0..marks.len()).collect();
    sort_by_key(&mut order, |&i| marks[i].at.1);
    let mut labels = vec![None; marks.len()];
    for i in order {
        let label = place_label(marks[i], &occupied, bounds);
        occupied.push(extent(label, marks[i].name_width));
        labels[i] = Some(label);
    }
    labels.into_iter().flatten().collect()
}

fn place_label(mark: Marker, occupied: &[Rect], bounds: Rect) -> LabelPosition {
    let positions = label_positions(mark);
    for position in &positions {
        let text = extent(*position, mark.name_width);
        if within(text, bounds) && !occupied.iter().any(|other| overlap(text, *other)) {
            return *position;
        }
    }
    positions[0]
}

/// Returns the positions of the search, of which the first is next to the mark.
fn label_positions(mark: Marker) -> Vec<LabelPosition> {
    let (x, middle) = mark.at;
    let mut positions = Vec::new();
    for step in 0..STEPS {
        let reach = mark.reach + GAP + 2 * step;
        for y in [middle + step * STEP, middle - step * STEP] {
            let is_far = step > 0;
            positions.push(LabelPosition { x: x + reach, y, is_left: false, is_far });
            positions.push(LabelPosition { x: x - reach, y, is_left: true, is_far });
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

    #[test]
    fn lone_name_is_right_of_mark() {
        let mark = |x| Marker { at: (x, 100), reach: 9, name_width: 80 };
        assert_eq!(
            place_labels(&[mark(100)], BOUNDS),
            [LabelPosition { x: 113, y: 100, is_left: false, is_far: false }]
        );
        assert!(place_labels(&[mark(880)], BOUNDS)[0].is_left);
    }

    proptest! {
        #[test]
        fn names_do_not_overlap(marks in proptest::collection::vec((300_i32..340, 200_i32..240), 1..9)) {
            let marks: Vec<_> = marks.into_iter().map(|at| Marker { at, reach: 9, name_width: 120 }).collect();
            let boxes: Vec<Rect> = place_labels(&marks, BOUNDS).into_iter().map(|label| extent(label, 120)).collect();
            for (i, a) in boxes.iter().enumerate() {
                prop_assert!(within(*a, BOUNDS));
                prop_assert!(boxes[..i].iter().all(|b| !overlap(*a, *b)));
            }
        }
    }
}
