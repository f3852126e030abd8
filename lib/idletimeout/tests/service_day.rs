//! A day of a service on tokio's paused clock, with `osinterval` and `idletimeout` together. The
//! events are those of the same service with tokio's own types.

use std::future::pending;
use std::pin::Pin;
use std::time::Duration;

use idletimeout::IdleTimeout;
use tokio::sync::mpsc::{Receiver, channel};
use tokio::time::Instant;

const DAY: Duration = Duration::from_secs(24 * 3_600);

// The offsets of the heartbeats, the messages and the silences from whole 10 ms differ, so that no
// two timers are due at the same time. tokio does not define the order of such timers.
const FIRST_HEARTBEAT: Duration = ms(1);
const FIRST_MESSAGE: Duration = ms(3);
const SILENCE: Duration = ms(10_002);

const fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Event {
    Heartbeat { due: Duration },
    Message { number: u64 },
    Silence,
    Refused,
    Answered,
}

/// Receives messages, or reports that none has come for the length of [`SILENCE`].
trait GuardedReceiver {
    async fn receive(&mut self) -> Event;
}

struct IdleReceiver {
    receiver: Receiver<u64>,
    idle: Pin<Box<IdleTimeout>>,
}

impl GuardedReceiver for IdleReceiver {
    async fn receive(&mut self) -> Event {
        match self.idle.as_mut().guard(self.receiver.recv()).await {
            Ok(number) => Event::Message { number: number.expect("the peer sends") },
            Err(_) => Event::Silence,
        }
    }
}

/// A receiver with a sleep of tokio that is reset.
struct TokioReceiver {
    receiver: Receiver<u64>,
    sleep: Pin<Box<tokio::time::Sleep>>,
    /// Whether a message came, so that the next wait begins a silence.
    has_received: bool,
}

impl GuardedReceiver for TokioReceiver {
    async fn receive(&mut self) -> Event {
        if std::mem::take(&mut self.has_received) {
            self.sleep.as_mut().reset(Instant::now() + SILENCE);
        }
        tokio::select! {
            biased;
            number = self.receiver.recv() => {
                self.has_received = true;
                Event::Message { number: number.expect("the peer sends") }
            }
            () = &mut self.sleep => {
                self.sleep.as_mut().reset(Instant::now() + SILENCE);
                Event::Silence
            }
        }
    }
}

/// Spawns a peer that sends messages at fixed times, with pauses of up to 30 s.
macro_rules! spawn_peer {
    ($time:path) => {{
        use $time as time;
        let (sender, receiver) = channel(1);
        tokio::spawn(async move {
            let mut due = Instant::now() + FIRST_MESSAGE;
            for number in 0_u64.. {
                due += ms(10) * (number * 7_919 % 3_001) as u32;
                time::sleep_until(due).await;
                if sender.send(number).await.is_err() {
                    break;
                }
            }
        });
        receiver
    }};
}

/// Runs the service for a day and returns its events with their times.
macro_rules! run_service {
    ($time:path, $receiver:expr) => {{
        use $time as time;
        let start = Instant::now();
        let mut receiver = $receiver;
        let mut heartbeats = time::interval_at(start + FIRST_HEARTBEAT, ms(60_000));
        let end = time::sleep_until(start + DAY);
        tokio::pin!(end);
        let mut log = Vec::new();
        loop {
            let event = tokio::select! {
                biased;
                () = &mut end => break,
                due = heartbeats.tick() => Event::Heartbeat { due: due - start },
                event = receiver.receive() => event,
            };
            log.push((start.elapsed(), event));
            if event == Event::Silence {
                // One attempt to connect again that times out, and one that does not.
                assert!(time::timeout(ms(5_000), pending::<()>()).await.is_err());
                log.push((start.elapsed(), Event::Refused));
                assert!(time::timeout(ms(30), time::sleep(ms(20))).await.is_ok());
                log.push((start.elapsed(), Event::Answered));
            }
        }
        (start.elapsed(), log)
    }};
}

#[tokio::test(start_paused = true)]
async fn service_day_matches_tokio() {
    let (expected_length, expected) = run_service!(
        tokio::time,
        TokioReceiver {
            receiver: spawn_peer!(tokio::time),
            sleep: Box::pin(tokio::time::sleep(SILENCE)),
            has_received: false,
        }
    );
    let (length, actual) = run_service!(
        osinterval,
        IdleReceiver {
            receiver: spawn_peer!(osinterval),
            idle: Box::pin(IdleTimeout::new(SILENCE)),
        }
    );
    assert_eq!((expected_length, length), (DAY, DAY));
    let count = |event: fn(&Event) -> bool| actual.iter().filter(|(_, e)| event(e)).count();
    assert_eq!(count(|event| matches!(event, Event::Heartbeat { .. })), 24 * 60);
    assert!(count(|event| matches!(event, Event::Message { .. })) > 4_000);
    assert!(count(|event| *event == Event::Silence) > 4_000);
    let differs = |index: &usize| actual.get(*index) != expected.get(*index);
    let first = (0..actual.len().max(expected.len())).find(differs);
    if let Some(index) = first {
        panic!("event {index}: {:?} instead of {:?}", actual.get(index), expected.get(index));
    }
}
