//! One value of each type, reachable from every task.

use std::any::{Any, TypeId, type_name};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fmt;
use std::rc::Rc;

/// A map from types to values: what the tasks of a thread share without passing it to each of them.
///
/// Clones are the same map. Every [`Runtime`](crate::Runtime) has one, empty at first, which needs
/// no setup. Outside a runtime, [`new`](Self::new) makes one.
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
/// It belongs to its thread:
///
/// ```compile_fail,E0277
/// fn send<T: Send>() {}
/// send::<busypoll::Resources>();
/// ```
#[derive(Clone, Default)]
pub struct Resources(Rc<RefCell<BTreeMap<TypeId, Rc<dyn Any>>>>);

impl Resources {
    /// An empty map.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Inserts a value, replacing one of the same type. The old one lives on where
    /// [`get`](Self::get) returned it.
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
        // Its destructor is foreign code: not while the map is borrowed.
        drop(replaced);
    }

    /// Removes the value of a type; returns whether there was one. It is dropped unless
    /// [`get`](Self::get) returned it to somebody who keeps it.
    pub fn remove<T: 'static>(&self) -> bool {
        let removed = self.0.borrow_mut().remove(&TypeId::of::<T>());
        removed.is_some()
    }

    /// Removes all values. A runtime that is dropped does this after dropping its tasks.
    pub fn clear(&self) {
        let removed = std::mem::take(&mut *self.0.borrow_mut());
        drop(removed);
    }

    /// Whether there is a value of a type.
    #[must_use]
    pub fn contains<T: 'static>(&self) -> bool {
        self.0.borrow().contains_key(&TypeId::of::<T>())
    }

    /// The value of a type, to keep: look it up once, then reach it without the map.
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
    /// If there is none, and within [`with_mut`](Self::with_mut) for the same type.
    pub fn with<T: 'static, R>(&self, f: impl FnOnce(&T) -> R) -> R {
        f(&self.expect::<T>().borrow())
    }

    /// Calls `f` with the value of a type, to change it.
    ///
    /// # Panics
    /// If there is none, and within [`with`](Self::with) or `with_mut` for the same type.
    pub fn with_mut<T: 'static, R>(&self, f: impl FnOnce(&mut T) -> R) -> R {
        f(&mut self.expect::<T>().borrow_mut())
    }

    fn expect<T: 'static>(&self) -> Rc<RefCell<T>> {
        self.get()
            .unwrap_or_else(|| panic!("no resource of type `{}` was inserted", type_name::<T>()))
    }
}

impl fmt::Debug for Resources {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Resources").field("len", &self.0.borrow().len()).finish()
    }
}
