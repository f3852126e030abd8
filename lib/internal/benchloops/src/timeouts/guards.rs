//! The guards.
//!
//! Guards that wait for a message and a timer always poll the message first.

use std::future::{Future, Pending, pending};
use std::marker::PhantomData;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use pin_project_lite::pin_project;
use tokio::time::{Instant, sleep_until, timeout};

use super::deadline::{Anchored, Deadlines, Direct};
use super::guard::{Guard, Message, Visitor};
use super::tally::Tally;
use super::variant::{Clock, Variant};

pin_project! {
    /// Waits for the message or the timer.
    ///
    /// This and the following futures are structs, since an `async` block would move a captured
    /// message once more and so add to the cost that is compared.
    struct Race<F, S, T> {
        #[pin]
        message: F,
        #[pin]
        timer: S,
        // Whether the next poll of the timer registers it.
        registers: bool,
        tally: PhantomData<T>,
    }
}

impl<F: Future, S: Future, T: Tally> Future for Race<F, S, T> {
    type Output = Option<F::Output>;

    #[inline]
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        if let Poll::Ready(value) = this.message.poll(cx) {
            return Poll::Ready(Some(value));
        }
        if std::mem::take(this.registers) {
            T::timer_registered();
        }
        this.timer.poll(cx).map(|_| None)
    }
}

pin_project! {
    /// Waits for a message and maps its output, which may be a timeout.
    struct MapMessage<F, C> {
        #[pin]
        message: F,
        map: C,
    }
}

impl<F: Future, V, C: Fn(F::Output) -> Option<V>> Future for MapMessage<F, C> {
    type Output = Option<V>;

    #[inline]
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        this.message.poll(cx).map(this.map)
    }
}

/// No timeout.
pub struct Control;

impl Guard for Control {
    const FIRES: bool = false;

    fn new(_: Duration) -> Self {
        Self
    }

    #[inline]
    fn wait<M: Message>(
        self: Pin<&mut Self>,
        message: M,
    ) -> impl Future<Output = Option<M::Output>> + Send {
        MapMessage { message, map: Some }
    }

    #[inline]
    fn arm(self: Pin<&mut Self>) {}

    #[inline]
    fn poll_armed(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<()> {
        Poll::Pending
    }
}

pin_project! {
    /// A new `tokio::time::timeout` for each wait.
    pub struct Timeout<T> {
        length: Duration,
        #[pin]
        armed: Option<tokio::time::Timeout<Pending<()>>>,
        fresh: bool,
        tally: PhantomData<T>,
    }
}

impl<T: Tally> Guard for Timeout<T> {
    fn new(length: Duration) -> Self {
        Self { length, armed: None, fresh: false, tally: PhantomData }
    }

    #[inline]
    fn wait<M: Message>(
        self: Pin<&mut Self>,
        message: M,
    ) -> impl Future<Output = Option<M::Output>> + Send {
        T::timer_created();
        let message = FirstPending { message, was_pending: false, tally: PhantomData::<T> };
        MapMessage { message: timeout(self.length, message), map: Result::ok }
    }

    #[inline]
    fn arm(self: Pin<&mut Self>) {
        T::timer_created();
        let mut this = self.project();
        this.armed.set(Some(timeout(*this.length, pending())));
        *this.fresh = true;
    }

    #[inline]
    fn poll_armed(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let this = self.project();
        if std::mem::take(this.fresh) {
            T::timer_registered();
        }
        this.armed.as_pin_mut().map_or(Poll::Pending, |armed| armed.poll(cx).map(|_| ()))
    }
}

pin_project! {
    /// Counts the first poll without a message, which makes tokio's `Timeout` register its timer.
    struct FirstPending<F, T> {
        #[pin]
        message: F,
        was_pending: bool,
        tally: PhantomData<T>,
    }
}

impl<F: Future, T: Tally> Future for FirstPending<F, T> {
    type Output = F::Output;

    #[inline]
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        let this = self.project();
        let result = this.message.poll(cx);
        if result.is_pending() && !std::mem::replace(this.was_pending, true) {
            T::timer_registered();
        }
        result
    }
}

pin_project! {
    /// A new `Sleep` for each wait.
    pub struct Sleep<D, T> {
        length: Duration,
        deadlines: D,
        #[pin]
        armed: Option<tokio::time::Sleep>,
        fresh: bool,
        tally: PhantomData<T>,
    }
}

impl<D: Deadlines, T: Tally> Guard for Sleep<D, T> {
    fn new(length: Duration) -> Self {
        Self { length, deadlines: D::new(), armed: None, fresh: false, tally: PhantomData }
    }

    #[inline]
    fn wait<M: Message>(
        self: Pin<&mut Self>,
        message: M,
    ) -> impl Future<Output = Option<M::Output>> + Send {
        let this = self.project();
        T::timer_created();
        let timer = sleep_until(this.deadlines.after(*this.length));
        Race { message, timer, registers: true, tally: PhantomData::<T> }
    }

    #[inline]
    fn arm(self: Pin<&mut Self>) {
        T::timer_created();
        let mut this = self.project();
        let deadline = this.deadlines.after(*this.length);
        this.armed.set(Some(sleep_until(deadline)));
        *this.fresh = true;
    }

    #[inline]
    fn poll_armed(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let this = self.project();
        if std::mem::take(this.fresh) {
            T::timer_registered();
        }
        this.armed.as_pin_mut().map_or(Poll::Pending, |armed| armed.poll(cx))
    }
}

/// Storage of a reused `Sleep`: inline or boxed.
pub trait SleepStorage: Send + 'static {
    fn new(sleep: tokio::time::Sleep) -> Self;
    fn sleep(self: Pin<&mut Self>) -> Pin<&mut tokio::time::Sleep>;
}

impl SleepStorage for tokio::time::Sleep {
    #[inline]
    fn new(sleep: tokio::time::Sleep) -> Self {
        sleep
    }

    #[inline]
    fn sleep(self: Pin<&mut Self>) -> Pin<&mut tokio::time::Sleep> {
        self
    }
}

impl SleepStorage for Pin<Box<tokio::time::Sleep>> {
    #[inline]
    fn new(sleep: tokio::time::Sleep) -> Self {
        Box::pin(sleep)
    }

    #[inline]
    fn sleep(self: Pin<&mut Self>) -> Pin<&mut tokio::time::Sleep> {
        self.get_mut().as_mut()
    }
}

pin_project! {
    /// One `Sleep`, reset for each wait.
    pub struct ReusedSleep<P, D, T> {
        length: Duration,
        deadlines: D,
        #[pin]
        timer: P,
        tally: PhantomData<T>,
    }
}

impl<P: SleepStorage, D: Deadlines, T: Tally> Guard for ReusedSleep<P, D, T> {
    fn new(length: Duration) -> Self {
        T::timer_created();
        let timer = P::new(sleep_until(Instant::now() + length));
        Self { length, deadlines: D::new(), timer, tally: PhantomData }
    }

    #[inline]
    fn wait<M: Message>(
        mut self: Pin<&mut Self>,
        message: M,
    ) -> impl Future<Output = Option<M::Output>> + Send {
        self.as_mut().arm();
        Race {
            message,
            timer: self.project().timer.sleep(),
            registers: false,
            tally: PhantomData::<T>,
        }
    }

    #[inline]
    fn arm(self: Pin<&mut Self>) {
        T::timer_registered();
        let this = self.project();
        let deadline = this.deadlines.after(*this.length);
        this.timer.sleep().reset(deadline);
    }

    #[inline]
    fn poll_armed(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        self.project().timer.sleep().poll(cx)
    }
}

/// Tolerated lateness of an idle timeout, as a share of its length.
pub trait Slack: Send + 'static {
    const SHARE: f64;
}

pub struct NoSlack;

impl Slack for NoSlack {
    const SHARE: f64 = 0.0;
}

pub struct TenPercentSlack;

impl Slack for TenPercentSlack {
    const SHARE: f64 = 0.1;
}

pin_project! {
    /// `idletimeout::IdleTimeout`, which is touched at each message and not armed again.
    pub struct IdleTimeout<C: idletimeout::Clock, S, T> {
        #[pin]
        idle: idletimeout::IdleTimeout<C>,
        registrations: u64,
        slack: PhantomData<S>,
        tally: PhantomData<T>,
    }
}

impl<C: idletimeout::Clock, S, T: Tally> IdleTimeout<C, S, T> {
    /// Counts the registrations since the last call.
    #[inline]
    fn count_registrations(self: Pin<&mut Self>) {
        if T::IS_COUNTED {
            let this = self.project();
            let now = this.idle.registrations();
            for _ in *this.registrations..now {
                T::timer_registered();
            }
            *this.registrations = now;
        }
    }
}

impl<C, S: Slack, T: Tally> Guard for IdleTimeout<C, S, T>
where
    C: idletimeout::Clock<Stamp: Send + Sync> + Default + Send + Sync + 'static,
{
    fn new(length: Duration) -> Self {
        T::timer_created();
        let idle = idletimeout::IdleTimeout::with_clock(length, C::default()).slack(S::SHARE);
        Self { idle, registrations: 0, slack: PhantomData, tally: PhantomData }
    }

    #[inline]
    fn wait<M: Message>(
        mut self: Pin<&mut Self>,
        message: M,
    ) -> impl Future<Output = Option<M::Output>> + Send {
        self.as_mut().count_registrations();
        MapMessage { message: self.project().idle.guard(message), map: Result::ok }
    }

    #[inline]
    fn begin(self: Pin<&mut Self>) {
        self.project().idle.touch();
    }

    #[inline]
    fn arm(self: Pin<&mut Self>) {
        self.project().idle.touch();
    }

    #[inline]
    fn poll_armed(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let result = self.as_mut().project().idle.poll(cx).map(|_| ());
        self.count_registrations();
        result
    }
}

/// Calls the visitor with the guard of a variant and a clock.
///
/// Returns `None` if the variant cannot use the clock.
pub fn visit_guard<T: Tally, R: Visitor>(
    variant: Variant,
    clock: Clock,
    visitor: R,
) -> Option<R::Output> {
    use idletimeout::{TachClock, TokioClock};
    if variant.rejection_reason(clock).is_some() {
        return None;
    }
    Some(match (variant, clock) {
        (Variant::Control, _) => visitor.visit::<Control>(),
        (Variant::Timeout, _) => visitor.visit::<Timeout<T>>(),
        (Variant::IdleTimeout, Clock::Tokio) => {
            visitor.visit::<IdleTimeout<TokioClock, NoSlack, T>>()
        }
        (Variant::IdleTimeout, _) => visitor.visit::<IdleTimeout<TachClock, NoSlack, T>>(),
        (Variant::IdleTimeoutSlack, Clock::Tokio) => {
            visitor.visit::<IdleTimeout<TokioClock, TenPercentSlack, T>>()
        }
        (Variant::IdleTimeoutSlack, _) => {
            visitor.visit::<IdleTimeout<TachClock, TenPercentSlack, T>>()
        }
        (_, Clock::Tokio) => visit_sleep::<Direct, T, R>(variant, visitor),
        (_, Clock::Tach) => visit_sleep::<Anchored<tach::Instant>, T, R>(variant, visitor),
        #[cfg(feature = "quanta")]
        (_, Clock::Quanta) => visit_sleep::<Anchored<quanta::Instant>, T, R>(variant, visitor),
        #[cfg(not(feature = "quanta"))]
        (_, Clock::Quanta) => return None,
    })
}

fn visit_sleep<D: Deadlines + Unpin, T: Tally, R: Visitor>(
    variant: Variant,
    visitor: R,
) -> R::Output {
    match variant {
        Variant::ReusedSleep => visitor.visit::<ReusedSleep<tokio::time::Sleep, D, T>>(),
        Variant::ReusedBoxedSleep => {
            visitor.visit::<ReusedSleep<Pin<Box<tokio::time::Sleep>>, D, T>>()
        }
        _ => visitor.visit::<Sleep<D, T>>(),
    }
}
