//! One value of each type, reachable from every task.

use std::any::{Any, TypeId, type_name};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fmt;
use std::rc::Rc;

use crate::context;

/// A map from types to values: what the tasks of a thread share without handing it to each of them.
///
/// Clones are the same map. Every [`Runtime`](crate::Runtime) has one, empty until something is put in; nothing needs to be
/// set up. Outside a runtime it works as well, from [`new`](Self::new).
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

    /// That of the runtime which runs on this thread.
    ///
    /// # Panics
    /// Outside [`block_on`](crate::Runtime::block_on).
    #[must_use]
    pub fn current() -> Self {
        context::current().resources.clone()
    }

    /// Puts a value in, in place of one of the same type. The one before lives on where [`get`](Self::get) gave it out.
    pub fn insert<T: 'static>(&self, value: T) {
        let replaced = self.0.borrow_mut().insert(TypeId::of::<T>(), Rc::new(RefCell::new(value)));
        // Its destructor is foreign code: not while the map is borrowed.
        drop(replaced);
    }

    /// Takes the value of a type out of the map. It is dropped unless [`get`](Self::get) gave it out. Whether there was one.
    pub fn remove<T: 'static>(&self) -> bool {
        let removed = self.0.borrow_mut().remove(&TypeId::of::<T>());
        removed.is_some()
    }

    /// Takes all values out of the map. A runtime does so with its own when it is dropped, after its tasks.
    pub fn clear(&self) {
        let removed = std::mem::take(&mut *self.0.borrow_mut());
        drop(removed);
    }

    /// Whether there is a value of a type.
    #[must_use]
    pub fn contains<T: 'static>(&self) -> bool {
        self.0.borrow().contains_key(&TypeId::of::<T>())
    }

    /// The value of a type, to be kept: looked up once, reached without the map afterwards.
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

    /// Calls `f` with the value of a type, to be changed.
    ///
    /// # Panics
    /// If there is none, and within [`with`](Self::with) or `with_mut` for the same type.
    pub fn with_mut<T: 'static, R>(&self, f: impl FnOnce(&mut T) -> R) -> R {
        f(&mut self.expect::<T>().borrow_mut())
    }

    fn expect<T: 'static>(&self) -> Rc<RefCell<T>> {
        self.get().unwrap_or_else(|| panic!("no resource of type `{}` was inserted", type_name::<T>()))
    }
}

impl fmt::Debug for Resources {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Resources").field("len", &self.0.borrow().len()).finish()
    }
}
