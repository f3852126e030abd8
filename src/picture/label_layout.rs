//! Names beside the marks of a picture, none over another.

/// Left, top, right, bottom, in pixels.
type Box = [i32; 4];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LabelPosition {
    /// Edge of the text next to the marker.
    pub x: i32,
    /// Middle of the text.
    pub y: i32,
    /// The text is to the left of `x`.
    pub to_the_left: bool,
    /// So far from its mark that a line should lead there.
    pub far: bool,
}

/// A mark that wants a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Marker {
    pub at: (i32, i32),
    /// From the middle to the ends of what is drawn to both sides of it.
    pub reach: i32,
    pub name_width: i32,
}

/// Half the height of a mark with the room around it.
const MARK: i32 = 9;
/// Between a mark and its name.
const GAP: i32 = 4;
/// Half the height of a line of text.
const HALF_LINE: i32 = 8;
/// Step of the search.
const STEP: i32 = 9;
const STEPS: i32 = 14;

/// Places a name beside each mark, from the top down: to the right or left of it, then further and
/// further up or down, at the first place that covers neither a mark nor another name and lies
/// within `bounds`.
pub fn beside(marks: &[Marker], bounds: Box) -> Vec<LabelPosition> {
    let covers = |m: &Marker| [m.at.0 - m.reach, m.at.1 - MARK, m.at.0 + m.reach, m.at.1 + MARK];
    let mut taken: Vec<Box> = marks.iter().map(covers).collect();
    let mut order: Vec<usize> = (0..marks.len()).collect();
    order.sort_by_key(|&i| marks[i].at.1);
    let mut places = vec![None; marks.len()];
    for i in order {
        let mark = marks[i];
        let mut all = candidates(mark);
        let nearest = all.next().expect("there is one beside the mark");
        let free = |place: &LabelPosition| {
            let covers = extent(*place, mark.name_width);
            within(covers, bounds) && !taken.iter().any(|other| overlap(covers, *other))
        };
        let best = std::iter::once(nearest).chain(all).find(free).unwrap_or(nearest);
        taken.push(extent(best, mark.name_width));
        places[i] = Some(best);
    }
    places.into_iter().flatten().collect()
}

fn candidates(mark: Marker) -> impl Iterator<Item = LabelPosition> {
    let (x, y) = mark.at;
    (0..STEPS).flat_map(move |step| {
        let reach = mark.reach + GAP + 2 * step;
        [step * STEP, -step * STEP].into_iter().flat_map(move |dy| {
            let at = |x, to_the_left| LabelPosition { x, y: y + dy, to_the_left, far: step > 0 };
            [at(x + reach, false), at(x - reach, true)]
        })
    })
}

fn extent(place: LabelPosition, width: i32) -> Box {
    let left = if place.to_the_left { place.x - width } else { place.x };
    [left, place.y - HALF_LINE, left + width, place.y + HALF_LINE]
}

fn overlap(a: Box, b: Box) -> bool {
    a[0] < b[2] && b[0] < a[2] && a[1] < b[3] && b[1] < a[3]
}

fn within(a: Box, bounds: Box) -> bool {
    a[0] >= bounds[0] && a[1] >= bounds[1] && a[2] <= bounds[2] && a[3] <= bounds[3]
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const BOUNDS: Box = [0, 0, 900, 500];

    #[test]
    fn a_lone_name_is_to_the_right_of_its_mark_where_there_is_room() {
        let mark = |x| Marker { at: (x, 100), reach: 9, name_width: 80 };
        assert_eq!(
            beside(&[mark(100)], BOUNDS),
            [LabelPosition { x: 113, y: 100, to_the_left: false, far: false }]
        );
        assert!(beside(&[mark(880)], BOUNDS)[0].to_the_left);
    }

    proptest! {
        #[test]
        fn names_of_a_crowd_keep_off_each_other(marks in proptest::collection::vec((300_i32..340, 200_i32..240), 1..9)) {
            let marks: Vec<_> = marks.into_iter().map(|at| Marker { at, reach: 9, name_width: 120 }).collect();
            let boxes: Vec<Box> = beside(&marks, BOUNDS).into_iter().map(|place| extent(place, 120)).collect();
            for (i, a) in boxes.iter().enumerate() {
                prop_assert!(within(*a, BOUNDS));
                prop_assert!(boxes[..i].iter().all(|b| !overlap(*a, *b)));
            }
        }
    }
}
