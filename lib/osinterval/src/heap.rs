//! An indexed heap of timers with four children per node.
//!
//! Every entry knows its position in the heap, so it can be moved or removed without a search. A
//! heap of four children is half as deep as a binary one, and the four share one or two cache
//! lines.
//!
//! Entries that are inserted one after the other with the same time share a node, in a linked list.
//! Many tasks that wait for the end of one slot do that. Only the first of them costs steps in the
//! heap when it is inserted or removed.
//!
//! An entry whose time is postponed keeps its node, and moves when the node comes to the root. It
//! moves once, however often it was postponed in between.

use std::task::Waker;

/// Wakers ordered by the time at which to wake them, in nanoseconds since some origin.
///
/// An entry is identified by its key, which [`TimerHeap::insert`] returns. The key is valid until
/// [`TimerHeap::remove`], even if the entry has fired.
#[derive(Debug)]
pub(crate) struct TimerHeap {
    nodes: Vec<Node>,
    entries: Vec<Entry>,
    /// The first free entry, which links to the next; [`NIL`] if none is free.
    free_head: usize,
    /// The entry that was linked last: the next one may have the same time.
    last_inserted: usize,
}

#[derive(Clone, Copy, Debug)]
struct Node {
    /// The time at which the entries of the node are checked; not later than any of their times.
    time: u64,
    /// The first entry of the node's list.
    head: usize,
}

#[derive(Debug)]
struct Entry {
    time: u64,
    position: Position,
    /// The next entry of the same node; [`NIL`] if this is the last.
    next: usize,
    waker: Option<Waker>,
}

/// The position of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Position {
    /// At the head of the list of this node.
    Node(usize),
    /// Behind this entry, in the list of its node.
    Behind(usize),
    /// Outside of the heap: its time has come.
    Fired,
    /// In the list of free entries, before this one.
    Free(usize),
}

/// The index that refers to no node and no entry.
pub(crate) const NIL: usize = usize::MAX;
/// Children of a node.
const CHILDREN: usize = 4;

impl Default for TimerHeap {
    fn default() -> Self {
        Self { nodes: Vec::new(), entries: Vec::new(), free_head: NIL, last_inserted: NIL }
    }
}

impl TimerHeap {
    /// Inserts an entry and returns its key.
    pub(crate) fn insert(&mut self, time: u64, waker: Waker) -> usize {
        let new = Entry { time, position: Position::Fired, next: NIL, waker: Some(waker) };
        let key = match self.entries.get_mut(self.free_head) {
            Some(free) => {
                let key = self.free_head;
                if let Position::Free(next) = std::mem::replace(free, new).position {
                    self.free_head = next;
                }
                key
            }
            None => {
                self.entries.push(new);
                self.entries.len() - 1
            }
        };
        self.link(key, time);
        key
    }

    /// Puts an entry that is outside of the heap into it: behind the entry that was linked last if
    /// both have the same time, otherwise into a node of its own.
    fn link(&mut self, key: usize, time: u64) {
        let before = std::mem::replace(&mut self.last_inserted, key);
        if let Some(&Entry {
            time: deadline,
            position: Position::Node(_) | Position::Behind(_),
            next,
            ..
        }) = self.entries.get(before)
            && deadline == time
        {
            self.entries[before].next = key;
            let linked = &mut self.entries[key];
            (linked.position, linked.next) = (Position::Behind(before), next);
            if let Some(next) = self.entries.get_mut(next) {
                next.position = Position::Behind(key);
            }
            return;
        }
        self.nodes.push(Node { time, head: key });
        self.sift_up(self.nodes.len() - 1);
    }

    /// Takes an entry out of the heap; it keeps its waker.
    fn unlink(&mut self, key: usize) {
        let Entry { position, next, .. } = self.entries[key];
        match position {
            Position::Node(node) if next == NIL => self.remove_node(node),
            Position::Node(node) => self.nodes[node].head = next,
            Position::Behind(before) => self.entries[before].next = next,
            Position::Fired | Position::Free(_) => return,
        }
        if let Some(follower) = self.entries.get_mut(next) {
            follower.position = position;
        }
        let unlinked = &mut self.entries[key];
        (unlinked.position, unlinked.next) = (Position::Fired, NIL);
    }

    /// Removes an entry, whether it has fired or not, and returns its waker if it has not.
    pub(crate) fn remove(&mut self, key: usize) -> Option<Waker> {
        self.unlink(key);
        let freed = &mut self.entries[key];
        freed.position = Position::Free(std::mem::replace(&mut self.free_head, key));
        freed.waker.take()
    }

    /// Moves an entry that has not fired to another time.
    pub(crate) fn move_to(&mut self, key: usize, time: u64) {
        let entry = &mut self.entries[key];
        let is_earlier = time < std::mem::replace(&mut entry.time, time);
        match entry.position {
            _ if !is_earlier => {}
            Position::Node(node) if entry.next == NIL => {
                if time < self.nodes[node].time {
                    self.nodes[node].time = time;
                    self.sift_up(node);
                }
            }
            _ => {
                self.unlink(key);
                self.link(key, time);
            }
        }
    }

    /// Returns whether the time of an entry has come and its waker was taken.
    pub(crate) fn has_fired(&self, key: usize) -> bool {
        self.entries[key].position == Position::Fired
    }

    /// Returns the time of an entry.
    pub(crate) fn time(&self, key: usize) -> u64 {
        self.entries[key].time
    }

    /// Returns the waker of an entry; `None` if it has fired.
    pub(crate) fn waker_mut(&mut self, key: usize) -> &mut Option<Waker> {
        &mut self.entries[key].waker
    }

    /// Returns whether an entry is the head of the root: it is checked before every other one.
    pub(crate) fn is_first(&self, key: usize) -> bool {
        self.entries[key].position == Position::Node(0)
    }

    /// Returns the time at which the root is to be checked.
    pub(crate) fn first_time(&self) -> Option<u64> {
        self.nodes.first().map(|first| first.time)
    }

    /// Returns the time at which the node after the root is to be checked.
    pub(crate) fn second_time(&self) -> Option<u64> {
        self.nodes.iter().skip(1).take(CHILDREN).map(|child| child.time).min()
    }

    /// Takes the waker of the first entry whose time has come.
    pub(crate) fn take_due(&mut self, now: u64) -> Option<Waker> {
        let mut last_moved = NIL;
        while let Some(&Node { time, head }) = self.nodes.first().filter(|first| first.time <= now)
        {
            let entry = &self.entries[head];
            let deadline = entry.time;
            if deadline <= time {
                return self.fire(head);
            }
            // The entry was postponed.
            if entry.next == NIL {
                self.nodes[0].time = deadline;
                self.sift_down(0);
            } else {
                self.unlink(head);
                // Only behind an entry that was moved in this loop: behind another one with the
                // same time, which may be in this node, it would be moved again and again.
                self.last_inserted = last_moved;
                self.link(head, deadline);
                last_moved = head;
            }
        }
        None
    }

    /// Takes an entry out of the heap as if its time had come, and returns its waker.
    pub(crate) fn fire(&mut self, key: usize) -> Option<Waker> {
        self.unlink(key);
        self.entries[key].waker.take()
    }

    /// Returns the wakers of all entries that have not fired.
    pub(crate) fn into_wakers(self) -> impl Iterator<Item = Waker> {
        self.entries.into_iter().filter_map(|entry| entry.waker)
    }

    /// Removes a node that is empty.
    fn remove_node(&mut self, node: usize) {
        let removed = self.nodes.swap_remove(node);
        // The last node is now at its index, and may be out of order with its parent or children.
        if let Some(moved) = self.nodes.get(node) {
            if moved.time < removed.time { self.sift_up(node) } else { self.sift_down(node) }
        }
    }

    fn sift_up(&mut self, mut index: usize) {
        let moving = self.nodes[index];
        while index > 0 {
            let parent = (index - 1) / CHILDREN;
            if self.nodes[parent].time <= moving.time {
                break;
            }
            self.set_node(index, self.nodes[parent]);
            index = parent;
        }
        self.set_node(index, moving);
    }

    fn sift_down(&mut self, mut index: usize) {
        let moving = self.nodes[index];
        loop {
            let first = index * CHILDREN + 1;
            let nth = match self.nodes.get(first..).unwrap_or_default() {
                // Without branches, since their outcome is unpredictable.
                [a, b, c, d, ..] => {
                    let (ab, cd) = (usize::from(b.time < a.time), usize::from(d.time < c.time));
                    let (min_ab, min_cd) = (a.time.min(b.time), c.time.min(d.time));
                    if min_cd < min_ab { 2 + cd } else { ab }
                }
                [] => break,
                last => (1..last.len())
                    .fold(0, |min, n| if last[n].time < last[min].time { n } else { min }),
            };
            let child = self.nodes[first + nth];
            if child.time >= moving.time {
                break;
            }
            self.set_node(index, child);
            index = first + nth;
        }
        self.set_node(index, moving);
    }

    fn set_node(&mut self, index: usize, node: Node) {
        self.nodes[index] = node;
        self.entries[node.head].position = Position::Node(index);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_waker::CountingWaker;
    use proptest::prelude::*;
    use std::sync::Arc;

    impl TimerHeap {
        /// Checks the order of the heap and the position of every entry, and returns the number of
        /// entries that have not fired.
        pub(crate) fn check_invariants(&self) -> usize {
            let mut waiting = 0;
            for (index, node) in self.nodes.iter().enumerate() {
                assert!(index == 0 || self.nodes[(index - 1) / CHILDREN].time <= node.time);
                let (mut expected, mut key) = (Position::Node(index), node.head);
                while let Some(entry) = self.entries.get(key) {
                    assert_eq!(entry.position, expected);
                    assert!(entry.time >= node.time && entry.waker.is_some());
                    (expected, key) = (Position::Behind(key), entry.next);
                    waiting += 1;
                }
            }
            waiting
        }

        fn take_due_wakers(&mut self, now: u64, max_due: usize) -> Vec<Waker> {
            std::iter::from_fn(|| self.take_due(now)).take(max_due).collect()
        }
    }

    /// Returns a hundred entries with one time.
    fn insert_crowd(heap: &mut TimerHeap, time: u64) -> Vec<usize> {
        (0..100).map(|_| heap.insert(time, Waker::noop().clone())).collect()
    }

    #[test]
    fn equal_times_share_a_node() {
        let mut heap = TimerHeap::default();
        let crowd = insert_crowd(&mut heap, 7);
        assert_eq!((heap.nodes.len(), heap.check_invariants()), (1, 100));
        heap.move_to(crowd[0], 9);
        heap.remove(crowd[50]);
        let due = heap.take_due_wakers(8, 10);
        let fired: Vec<_> = crowd.iter().filter(|&&key| heap.has_fired(key)).collect();
        assert_eq!((due.len(), fired.len()), (10, 10));
        assert!(crowd[1..=10].iter().all(|&key| heap.has_fired(key)), "in order of insertion");
        assert_eq!(heap.take_due_wakers(8, 100).len(), 88);
        assert_eq!((heap.check_invariants(), heap.first_time()), (1, Some(9)));
    }

    #[test]
    fn postponed_crowd_moves_to_one_node() {
        let mut heap = TimerHeap::default();
        let crowd = insert_crowd(&mut heap, 7);
        for &key in &crowd {
            heap.move_to(key, 9);
        }
        assert_eq!(heap.take_due_wakers(8, 10).len(), 0);
        assert_eq!((heap.check_invariants(), heap.first_time()), (100, Some(9)));
        assert!(heap.nodes.len() <= 2, "the last entry keeps its node");
        assert_eq!(heap.take_due_wakers(9, 100).len(), 100);
        assert_eq!(heap.check_invariants(), 0);
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
            2 => (any::<usize>(), time).prop_map(|(index, time)| Step::Move(index, time)),
            2 => any::<usize>().prop_map(Step::Remove),
            1 => (0_u64..200).prop_map(Step::Advance),
        ]
    }

    /// The expected state of an entry.
    struct ModelEntry {
        key: usize,
        time: u64,
        fired: bool,
        waker: Arc<CountingWaker>,
    }

    /// An entry that was removed, and how often its waker should have been called.
    struct RemovedEntry {
        waker: Arc<CountingWaker>,
        wake_count: usize,
    }

    /// A heap and a list with the same entries.
    #[derive(Default)]
    struct Model {
        heap: TimerHeap,
        entries: Vec<ModelEntry>,
        removed: Vec<RemovedEntry>,
        now: u64,
        max_entries: usize,
    }

    impl Model {
        fn apply(&mut self, step: &Step) {
            match *step {
                Step::Insert(time) => self.insert(time),
                Step::Advance(by) => self.advance(by),
                Step::Move(..) | Step::Remove(_) if self.entries.is_empty() => {}
                Step::Move(index, time) => self.move_to(index % self.entries.len(), time),
                Step::Remove(index) => self.remove(index % self.entries.len()),
            }
        }

        fn insert(&mut self, time: u64) {
            let waker = Arc::new(CountingWaker::default());
            let key = self.heap.insert(time, Arc::clone(&waker).into());
            self.entries.push(ModelEntry { key, time, fired: false, waker });
            self.max_entries = self.max_entries.max(self.entries.len());
        }

        fn move_to(&mut self, index: usize, time: u64) {
            let entry = &mut self.entries[index];
            if !entry.fired {
                self.heap.move_to(entry.key, time);
                entry.time = time;
            }
        }

        fn remove(&mut self, index: usize) {
            let ModelEntry { key, fired, waker, .. } = self.entries.swap_remove(index);
            assert_eq!(self.heap.remove(key).is_some(), !fired);
            self.removed.push(RemovedEntry { waker, wake_count: usize::from(fired) });
        }

        /// Takes due entries in small batches, which have to come in the order of their times.
        fn advance(&mut self, by: u64) {
            self.now += by;
            while self.wake_batch() {}
        }

        /// Returns whether an entry has fired.
        fn wake_batch(&mut self) -> bool {
            const BATCH: usize = 3;
            let is_due = |entry: &&ModelEntry| !entry.fired && entry.time <= self.now;
            let due_entries = self.entries.iter().filter(is_due);
            let mut expected: Vec<_> = due_entries.map(|entry| entry.time).collect();
            expected.sort_unstable();
            expected.truncate(BATCH);

            let due = self.heap.take_due_wakers(self.now, BATCH);
            assert_eq!(due.len(), expected.len());
            due.into_iter().for_each(Waker::wake);

            let mut times = Vec::new();
            for entry in self.entries.iter_mut().filter(|entry| !entry.fired) {
                if self.heap.has_fired(entry.key) {
                    entry.fired = true;
                    times.push(entry.time);
                }
            }
            times.sort_unstable();
            assert_eq!(times, expected);
            !times.is_empty()
        }

        fn check(&self) {
            let waiting: Vec<_> = self.entries.iter().filter(|entry| !entry.fired).collect();
            assert_eq!(self.heap.check_invariants(), waiting.len());
            let first = self.heap.first_time();
            assert!(first.is_none_or(|first| waiting.iter().all(|entry| first <= entry.time)));
            let others = self.heap.nodes.iter().skip(1).map(|node| node.time);
            assert_eq!(self.heap.second_time(), others.min());
            assert_eq!(self.heap.entries.len(), self.max_entries, "free entries are reused");
            for entry in &self.entries {
                assert_eq!(self.heap.has_fired(entry.key), entry.fired);
                assert_eq!(self.heap.time(entry.key), entry.time);
                assert_eq!(entry.waker.wake_count(), usize::from(entry.fired));
            }
        }
    }

    proptest! {
        #[test]
        fn heap_matches_sorted_list_model(steps in proptest::collection::vec(step(), 1..400)) {
            let mut model = Model::default();
            for step in &steps {
                model.apply(step);
                model.check();
            }
            drop(model.heap);
            for RemovedEntry { waker, wake_count } in model.removed {
                assert_eq!(waker.wake_count(), wake_count);
                assert_eq!(Arc::strong_count(&waker), 1, "no waker is kept");
            }
        }
    }
}
