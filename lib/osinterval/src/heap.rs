//! Who waits until when: a heap that knows where in it everybody is.
//!
//! Four children a node: half as deep as with two, and the four lie in one or two cache lines.
//! Those who come one after the other with the same time, as a crowd does that waits for the end of
//! a slot, share a node: whoever follows the first costs no step in the heap, neither coming nor
//! going. A wait that is put off stays where it is, and moves when its turn comes: however often
//! that happens in between, it costs one move.

use std::task::Waker;

/// Who waits, by the time at which to wake it, in nanoseconds since some origin.
#[derive(Debug)]
pub(crate) struct Waits {
    nodes: Vec<Node>,
    places: Vec<Place>,
    /// The first free place; each of them leads to the next.
    vacant: usize,
    /// The place that came last: the next may have the same time.
    latest: usize,
}

#[derive(Clone, Copy, Debug)]
struct Node {
    /// The time at which its places are looked at: not later than their own.
    time: u64,
    /// The first of them.
    place: usize,
}

#[derive(Debug)]
struct Place {
    time: u64,
    at: At,
    /// Who shares its node, behind it; [`NOWHERE`] for none.
    next: usize,
    waker: Option<Waker>,
}

/// Where a place is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum At {
    /// At the head of this node.
    Node(usize),
    /// Behind this place, at the same node.
    Behind(usize),
    /// Nowhere: its time has come.
    Fired,
    /// Free; then comes this one.
    Free(usize),
}

/// No node, or no place.
pub(crate) const NOWHERE: usize = usize::MAX;
const CHILDREN: usize = 4;

impl Default for Waits {
    fn default() -> Self {
        Self { nodes: Vec::new(), places: Vec::new(), vacant: NOWHERE, latest: NOWHERE }
    }
}

impl Waits {
    /// Adds a wait; its place is its name until it is removed.
    pub(crate) fn insert(&mut self, time: u64, waker: Waker) -> usize {
        let new = Place { time, at: At::Fired, next: NOWHERE, waker: Some(waker) };
        let place = match self.places.get_mut(self.vacant) {
            Some(free) => {
                let place = self.vacant;
                if let At::Free(next) = std::mem::replace(free, new).at {
                    self.vacant = next;
                }
                place
            }
            None => {
                self.places.push(new);
                self.places.len() - 1
            }
        };
        self.enter(place, time);
        place
    }

    /// Gives a place, which is nowhere, a node or a part in one.
    fn enter(&mut self, place: usize, time: u64) {
        let before = std::mem::replace(&mut self.latest, place);
        if let Some(&Place { time: its, at: At::Node(_) | At::Behind(_), next, .. }) =
            self.places.get(before)
            && its == time
        {
            self.places[before].next = place;
            (self.places[place].at, self.places[place].next) = (At::Behind(before), next);
            if let Some(next) = self.places.get_mut(next) {
                next.at = At::Behind(place);
            }
            return;
        }
        self.nodes.push(Node { time, place });
        self.sift_up(self.nodes.len() - 1);
    }

    /// Takes a place out of the heap; it keeps its waker.
    fn leave(&mut self, place: usize) {
        let Place { at, next, .. } = self.places[place];
        match at {
            At::Node(node) if next == NOWHERE => self.remove_node(node),
            At::Node(node) => self.nodes[node].place = next,
            At::Behind(before) => self.places[before].next = next,
            At::Fired | At::Free(_) => return,
        }
        if let Some(follower) = self.places.get_mut(next) {
            follower.at = at;
        }
        (self.places[place].at, self.places[place].next) = (At::Fired, NOWHERE);
    }

    /// Removes a wait, whether its time has come or not, and returns its waker if that was not
    /// taken.
    pub(crate) fn remove(&mut self, place: usize) -> Option<Waker> {
        self.leave(place);
        let freed = &mut self.places[place];
        freed.at = At::Free(std::mem::replace(&mut self.vacant, place));
        freed.waker.take()
    }

    /// Moves a wait, whose time has not come, to another time.
    pub(crate) fn move_to(&mut self, place: usize, time: u64) {
        let entry = &mut self.places[place];
        let earlier = time < std::mem::replace(&mut entry.time, time);
        match entry.at {
            _ if !earlier => {}
            At::Node(node) if entry.next == NOWHERE => {
                if time < self.nodes[node].time {
                    self.nodes[node].time = time;
                    self.sift_up(node);
                }
            }
            _ => {
                self.leave(place);
                self.enter(place, time);
            }
        }
    }

    /// Whether the time of a wait has come: its waker is taken.
    pub(crate) fn has_fired(&self, place: usize) -> bool {
        self.places[place].at == At::Fired
    }

    /// The time of a wait.
    pub(crate) fn time(&self, place: usize) -> u64 {
        self.places[place].time
    }

    /// The waker of a wait, unless its time has come.
    pub(crate) fn waker(&mut self, place: usize) -> &mut Option<Waker> {
        &mut self.places[place].waker
    }

    /// Whether no other wait was looked at as early before this one came.
    pub(crate) fn is_first(&self, place: usize) -> bool {
        self.places[place].at == At::Node(0)
    }

    /// When the first is to be looked at.
    pub(crate) fn first(&self) -> Option<u64> {
        self.nodes.first().map(|first| first.time)
    }

    /// Moves the wakers of those whose time has come into `due`, up to so many.
    pub(crate) fn take_due(&mut self, now: u64, most: usize, due: &mut Vec<Waker>) {
        let mut moved = NOWHERE;
        while let Some(&Node { time, place }) = self.nodes.first().filter(|first| first.time <= now)
        {
            let entry = &mut self.places[place];
            let its = entry.time;
            if its > time {
                // It was put off.
                if entry.next == NOWHERE {
                    self.nodes[0].time = its;
                    self.sift_down(0);
                } else {
                    self.leave(place);
                    // Behind one that was put off to the same time and is still here it would be
                    // looked at for ever.
                    self.latest = moved;
                    self.enter(place, its);
                    moved = place;
                }
                continue;
            }
            if due.len() >= most {
                return;
            }
            due.extend(entry.waker.take());
            self.leave(place);
        }
    }

    /// All wakers, of whoever still waits.
    pub(crate) fn into_wakers(self) -> impl Iterator<Item = Waker> {
        self.places.into_iter().filter_map(|place| place.waker)
    }

    /// Takes a node out, which nobody is at any more.
    fn remove_node(&mut self, node: usize) {
        let removed = self.nodes.swap_remove(node);
        // The last has taken its place: up or down with it.
        if let Some(moved) = self.nodes.get(node) {
            if moved.time < removed.time { self.sift_up(node) } else { self.sift_down(node) }
        }
    }

    fn sift_up(&mut self, mut at: usize) {
        let moving = self.nodes[at];
        while at > 0 {
            let parent = (at - 1) / CHILDREN;
            if self.nodes[parent].time <= moving.time {
                break;
            }
            self.put(at, self.nodes[parent]);
            at = parent;
        }
        self.put(at, moving);
    }

    fn sift_down(&mut self, mut at: usize) {
        let moving = self.nodes[at];
        loop {
            let first = at * CHILDREN + 1;
            let nth = match self.nodes.get(first..).unwrap_or_default() {
                // Without branches, which nothing could predict.
                [a, b, c, d, ..] => {
                    let (ab, cd) = (usize::from(b.time < a.time), usize::from(d.time < c.time));
                    let (of_ab, of_cd) = (a.time.min(b.time), c.time.min(d.time));
                    if of_cd < of_ab { 2 + cd } else { ab }
                }
                [] => break,
                last => (1..last.len())
                    .fold(0, |least, n| if last[n].time < last[least].time { n } else { least }),
            };
            let child = self.nodes[first + nth];
            if child.time >= moving.time {
                break;
            }
            self.put(at, child);
            at = first + nth;
        }
        self.put(at, moving);
    }

    fn put(&mut self, at: usize, node: Node) {
        self.nodes[at] = node;
        self.places[node.place].at = At::Node(at);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::woken::Woken;
    use proptest::prelude::*;
    use std::sync::Arc;

    impl Waits {
        /// How many wait; every one of them is where it believes to be, and after its parent.
        pub(crate) fn check(&self) -> usize {
            let mut waiting = 0;
            for (at, node) in self.nodes.iter().enumerate() {
                assert!(at == 0 || self.nodes[(at - 1) / CHILDREN].time <= node.time);
                let (mut expected, mut place) = (At::Node(at), node.place);
                while let Some(entry) = self.places.get(place) {
                    assert_eq!(entry.at, expected);
                    assert!(entry.time >= node.time && entry.waker.is_some());
                    (expected, place) = (At::Behind(place), entry.next);
                    waiting += 1;
                }
            }
            waiting
        }

        /// How many places there are, free ones included.
        pub(crate) fn places(&self) -> usize {
            self.places.len()
        }
    }

    /// A wait of the model: what a list of all of them would know.
    struct Known {
        place: usize,
        time: u64,
        fired: bool,
        woken: Arc<Woken>,
    }

    #[derive(Clone, Debug)]
    enum Step {
        Insert(u64),
        Move(usize, u64),
        Remove(usize),
        Advance(u64),
    }

    fn step() -> impl Strategy<Value = Step> {
        // Few times, so that many are equal.
        let time = prop_oneof![0_u64..50, 0_u64..5_000, Just(u64::MAX)];
        prop_oneof![
            4 => time.clone().prop_map(Step::Insert),
            2 => (any::<usize>(), time).prop_map(|(which, time)| Step::Move(which, time)),
            2 => any::<usize>().prop_map(Step::Remove),
            1 => (0_u64..200).prop_map(Step::Advance),
        ]
    }

    #[test]
    fn a_crowd_with_one_time_shares_a_node_and_is_woken_in_turn() {
        let mut waits = Waits::default();
        let crowd: Vec<_> = (0..100).map(|_| waits.insert(7, Waker::noop().clone())).collect();
        assert_eq!((waits.nodes.len(), waits.check()), (1, 100));
        waits.move_to(crowd[0], 9);
        waits.remove(crowd[50]);
        let mut due = Vec::new();
        waits.take_due(8, 10, &mut due);
        let fired = |waits: &Waits| crowd.iter().filter(|&&place| waits.has_fired(place)).count();
        assert_eq!((due.len(), fired(&waits)), (10, 10));
        assert!(
            crowd[1..=10].iter().all(|&place| waits.has_fired(place)),
            "first come, first woken"
        );
        waits.take_due(8, 100, &mut due);
        assert_eq!((due.len(), waits.check(), waits.first()), (98, 1, Some(9)));
    }

    #[test]
    fn a_crowd_that_is_put_off_together_goes_on_together() {
        let mut waits = Waits::default();
        let crowd: Vec<_> = (0..100).map(|_| waits.insert(7, Waker::noop().clone())).collect();
        crowd.iter().for_each(|&place| waits.move_to(place, 9));
        let mut due = Vec::new();
        waits.take_due(8, 10, &mut due);
        assert_eq!((due.len(), waits.check(), waits.first()), (0, 100, Some(9)));
        assert!(waits.nodes.len() <= 2, "the last of them keeps its node");
        waits.take_due(9, 100, &mut due);
        assert_eq!((due.len(), waits.check()), (100, 0));
    }

    proptest! {
        #[test]
        fn everybody_is_woken_once_when_a_sorted_list_says_so(steps in proptest::collection::vec(step(), 1..400)) {
            let (mut waits, mut known, mut now) = (Waits::default(), Vec::<Known>::new(), 0_u64);
            let (mut most, mut gone) = (0, Vec::new());
            for step in steps {
                match step {
                    Step::Insert(time) => {
                        let woken = Arc::new(Woken::default());
                        let place = waits.insert(time, Arc::clone(&woken).into());
                        known.push(Known { place, time, fired: false, woken });
                        most = most.max(known.len());
                    }
                    Step::Move(which, time) if !known.is_empty() => {
                        let which = which % known.len();
                        let of = &mut known[which];
                        if !of.fired {
                            waits.move_to(of.place, time);
                            of.time = time;
                        }
                    }
                    Step::Remove(which) if !known.is_empty() => {
                        let of = known.swap_remove(which % known.len());
                        prop_assert_eq!(waits.remove(of.place).is_some(), !of.fired);
                        gone.push((of.woken, usize::from(of.fired)));
                    }
                    Step::Advance(by) => {
                        now += by;
                        // In small batches, in the order of their times.
                        loop {
                            let mut due = Vec::new();
                            waits.take_due(now, 3, &mut due);
                            let mut expected: Vec<_> = known.iter().filter(|k| !k.fired && k.time <= now).map(|k| k.time).collect();
                            expected.sort_unstable();
                            prop_assert_eq!(due.len(), expected.len().min(3));
                            due.into_iter().for_each(Waker::wake);
                            let mut fired: Vec<_> = known.iter_mut().filter(|k| !k.fired && waits.has_fired(k.place)).collect();
                            let mut times: Vec<_> = fired.iter().map(|k| k.time).collect();
                            times.sort_unstable();
                            prop_assert_eq!(&times[..], &expected[..times.len()]);
                            fired.iter_mut().for_each(|k| k.fired = true);
                            if times.is_empty() {
                                break;
                            }
                        }
                    }
                    Step::Move(..) | Step::Remove(_) => {}
                }
                prop_assert_eq!(waits.check(), known.iter().filter(|k| !k.fired).count());
                prop_assert!(waits.first().is_none_or(|first| known.iter().all(|k| k.fired || first <= k.time)));
                prop_assert_eq!(waits.places(), most, "places are used again");
                for of in &known {
                    prop_assert_eq!(waits.has_fired(of.place), of.fired);
                    prop_assert_eq!(of.woken.times(), usize::from(of.fired));
                    prop_assert_eq!(waits.time(of.place), of.time);
                }
            }
            drop(waits);
            for (woken, times) in gone {
                prop_assert_eq!(woken.times(), times);
                prop_assert_eq!(Arc::strong_count(&woken), 1, "no waker is kept");
            }
        }
    }
}
