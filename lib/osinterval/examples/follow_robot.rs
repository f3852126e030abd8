//! A control loop that follows the clock of a robot.
//!
//! The robot sends its state every millisecond of its own clock, and needs a command before its
//! next cycle. Its clock is 50 ppm slower than ours, so a loop without steering would lose a whole
//! cycle every 20 seconds. This loop ticks 300 us after each cycle of the robot has begun. Prints
//! the state of the servo ten times a second.
//!
//! Run it with `cargo run --release --example follow_robot`.
#![allow(clippy::print_stdout, reason = "an example prints")]

use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use osinterval::MissedTickBehavior;

const PERIOD: Duration = Duration::from_millis(1);
const ROBOT_PERIOD: Duration = Duration::from_nanos(1_000_050);
/// The state of a cycle arrives within this time after the cycle has begun.
const PHASE: Duration = Duration::from_micros(300);

/// A packet with the state of the robot.
struct Packet {
    cycle: u64,
    /// When it was received. A real program would use a time stamp of the kernel, if it can.
    received: Instant,
}

/// Starts a thread in place of the robot and of the network.
#[allow(clippy::disallowed_methods, reason = "the robot has a clock of its own")]
fn connect() -> Receiver<Packet> {
    let (sender, packets) = channel();
    let start = Instant::now();
    std::thread::spawn(move || {
        let mut due = start;
        for cycle in 0.. {
            due += ROBOT_PERIOD;
            std::thread::sleep(due.saturating_duration_since(Instant::now()));
            if sender.send(Packet { cycle, received: Instant::now() }).is_err() {
                break;
            }
        }
    });
    packets
}

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let packets = connect();
    let mut interval = osinterval::interval(PERIOD);
    // If the loop stalls, it continues with the next cycle of the robot.
    interval.set_missed_tick_behavior(MissedTickBehavior::Skip);
    interval.set_tolerance(PERIOD / 2);
    let mut last_cycle = None;
    for tick in 0..3_000 {
        interval.tick().await;
        let (mut received, mut lost) = (0, 0);
        for packet in packets.try_iter() {
            interval.steer((packet.received + PHASE).into());
            lost += last_cycle.map_or(0, |last| packet.cycle - last - 1);
            last_cycle = Some(packet.cycle);
            received += 1;
        }
        // A real loop would compute a command from the state of the robot, and send it.
        if tick % 100 == 0 {
            match interval.steering() {
                Some(steering) if steering.is_locked => println!(
                    "tick {tick}: locked at {} ppm, last packet {} us off, {received} received, {lost} lost",
                    steering.rate_ppb / 1_000,
                    steering.offset_ns / 1_000,
                ),
                _ => println!("tick {tick}: {received} received, not locked"),
            }
        }
    }
}
