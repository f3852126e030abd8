//! A stable sort with little machine code.
//!
//! The compiler creates the sort of the standard library again for each type and each comparison,
//! which is more than ten times the code of these functions. They sort indices, with a comparison
//! behind a pointer, and then swap the items. This is slower, but not noticeably for lists that are
//! sorted once.

use std::cmp::Ordering;

/// Sorts items by a key. Items with the same key keep their order.
pub fn sort_by_key<T, K: Ord>(items: &mut [T], key: impl Fn(&T) -> K) {
    sort_by(items, |a, b| key(a).cmp(&key(b)));
}

/// Sorts items by a comparison. Equal items keep their order.
pub fn sort_by<T>(items: &mut [T], compare: impl Fn(&T, &T) -> Ordering) {
    let mut order = sorted_indices(items.len(), &|a, b| compare(&items[a], &items[b]));
    reorder(&mut order, &mut |a, b| items.swap(a, b));
}

/// Returns the indices of a number of items in the order of the items.
fn sorted_indices(count: usize, compare: &dyn Fn(usize, usize) -> Ordering) -> Vec<usize> {
    let mut order: Vec<usize> = (0..count).collect();
    order.sort_by(|&a, &b| compare(a, b));
    order
}

/// Swaps items until each is at its place. `order` has the index of the item for each place.
fn reorder(order: &mut [usize], swap: &mut dyn FnMut(usize, usize)) {
    for start in 0..order.len() {
        // The items of a cycle move by one place each. Places that are done refer to themselves.
        let mut place = start;
        while order[place] != start {
            let next = order[place];
            swap(place, next);
            order[place] = place;
            place = next;
        }
        order[place] = place;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_orders_are_sorted_stably() {
        // Numbers with up to five digits below four: all lists of up to five keys.
        for number in 0..4_usize.pow(5) {
            let digits = (0..number % 6).map(|i| number / 4_usize.pow(i as u32) % 4);
            let items: Vec<(usize, usize)> = digits.enumerate().map(|(i, d)| (d, i)).collect();
            let (mut ours, mut expected) = (items.clone(), items.clone());
            sort_by_key(&mut ours, |(digit, _)| *digit);
            expected.sort_by_key(|(digit, _)| *digit);
            assert_eq!(ours, expected, "{items:?}");
        }
    }

    #[test]
    fn values_without_total_order_are_sorted() {
        let mut values = vec![2.0, f64::INFINITY, -1.0, 0.5];
        sort_by(&mut values, |a, b| b.total_cmp(a));
        assert_eq!(values, [f64::INFINITY, 2.0, 0.5, -1.0]);
    }
}
