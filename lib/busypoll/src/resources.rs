//! A map of values that every task can reach, with one value of each type.

use std::any::{Any, TypeId, type_name};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fmt;
use std::rc::Rc;

use crate::task::drop_quietly;

/// A map from types to values, which the tasks of a thread share without passing it to each task.
///
/// Clones are the same map. Every [`Runtime`](crate::Runtime) has a map that is empty at first and
/// needs no setup. Outside a runtime, [`new`](Self::new) creates a map.
///
/// ```
/// use busypoll::{Resources, Runtime, spawn_boxed};
///
/// struct Orders(u32);
///
/// let mut runtime = Runtime::new()?;
/// runtime.resources().insert(Orders(0));
/// runtime.block_on(async {
///     spawn_boxed(async { Resources::current().with_mut(|orders: &mut Orders| orders.0 += 1) }).await.unwrap();
/// });
/// assert_eq!(runtime.resources().with(|orders: &Orders| orders.0), 1);
/// # Ok::<(), std::io::Error>(())
/// ```
///
/// A map is neither `Send` nor `Sync`.
#[derive(Clone, Default)]
pub struct Resources(Rc<RefCell<BTreeMap<TypeId, Rc<dyn Any>>>>);

impl Resources {
    /// Creates an empty map.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Inserts a value and replaces one of the same type. A replaced value stays alive as long as a
    /// result of [`get`](Self::get) refers to it.
    ///
    /// ```
    /// let resources = busypoll::Resources::new();
    /// resources.insert(1_u32);
    /// resources.insert(2_u32);
    /// assert_eq!(resources.with(|n: &u32| *n), 2);
    /// assert!(resources.contains::<u32>() && resources.remove::<u32>());
    /// assert!(resources.get::<u32>().is_none());
    /// ```
    pub fn insert<T: 'static>(&self, value: T) {
        let replaced = self.0.borrow_mut().insert(TypeId::of::<T>(), Rc::new(RefCell::new(value)));
        // The destructor is foreign code, so it runs after the borrow of the map.
        drop(replaced);
    }

    /// Removes the value of a type. Returns whether there was one. The value is dropped unless a
    /// result of [`get`](Self::get) still refers to it.
    #[allow(clippy::must_use_candidate, reason = "the effect is the point of the call")]
    pub fn remove<T: 'static>(&self) -> bool {
        let removed = self.0.borrow_mut().remove(&TypeId::of::<T>());
        removed.is_some()
    }

    /// Removes all values. Dropping a runtime does this after dropping the tasks.
    pub fn clear(&self) {
        let removed = std::mem::take(&mut *self.0.borrow_mut());
        drop(removed);
    }

    /// Removes all values, including those that the destructors of others insert. Ignores panics of
    /// the destructors. A value whose destructor always inserts another one remains in the end.
    pub(crate) fn clear_quietly(&self) {
        const MAX_ROUNDS: usize = 16;
        for _ in 0..MAX_ROUNDS {
            let removed = std::mem::take(&mut *self.0.borrow_mut());
            removed.into_values().for_each(drop_quietly);
        }
    }

    /// Returns whether there is a value of a type.
    #[must_use]
    pub fn contains<T: 'static>(&self) -> bool {
        self.0.borrow().contains_key(&TypeId::of::<T>())
    }

    /// Returns the value of a type, which can then be used without a further look-up.
    ///
    /// ```
    /// let resources = busypoll::Resources::new();
    /// resources.insert(1_u32);
    /// let count = resources.get::<u32>().unwrap();
    /// *count.borrow_mut() += 1;
    /// assert_eq!(resources.with(|n: &u32| *n), 2);
    /// ```
    #[must_use]
    pub fn get<T: 'static>(&self) -> Option<Rc<RefCell<T>>> {
        let found = self.0.borrow().get(&TypeId::of::<T>()).cloned();
        found.and_then(|value| value.downcast().ok())
    }

    /// Calls `f` with the value of a type.
    ///
    /// # Panics
    /// Panics if such a value does not exist, or within [`with_mut`](Self::with_mut) for the same
    /// type.
    pub fn with<T: 'static, R>(&self, f: impl FnOnce(&T) -> R) -> R {
        f(&self.get_or_panic::<T>().borrow())
    }

    /// Calls `f` with a mutable reference to the value of a type.
    ///
    /// # Panics
    /// Panics if such a value does not exist, or within [`with`](Self::with) or `with_mut` for the
    /// same type.
    pub fn with_mut<T: 'static, R>(&self, f: impl FnOnce(&mut T) -> R) -> R {
        f(&mut self.get_or_panic::<T>().borrow_mut())
    }

    fn get_or_panic<T: 'static>(&self) -> Rc<RefCell<T>> {
        self.get()
            .unwrap_or_else(|| panic!("no resource of type `{}` was inserted", type_name::<T>()))
    }
}

impl fmt::Debug for Resources {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Resources").field("len", &self.0.borrow().len()).finish()
    }
}
