//! The orders to the helper, as they are sent over the pipe to it.

use std::io::BufRead;
use std::sync::mpsc::Sender;
use std::time::Duration;

use crate::measure::trial_commands::TrialCommands;
use crate::program::Program;

/// Interval at which each process looks whether the other one is stopped.
pub const STOP_POLL_INTERVAL: Duration = Duration::from_millis(50);
/// First part of an order to change a setting. Its name and its commands follow.
pub const CHANGE: &str = "change";
/// Order to undo the change that is in effect.
pub const UNDO: &str = "undo";
/// Reply of a helper that cannot get its lock.
pub const BUSY: &str = "busy";

/// An order to the helper.
pub enum Order {
    Change(Box<TrialCommands>),
    Undo,
}

pub fn forward_orders(mut input: impl BufRead, orders: &Sender<Order>) {
    while let Some(part) = read_part(&mut input) {
        let order = match part == CHANGE {
            true => read_commands(&mut input).map(|commands| Order::Change(Box::new(commands))),
            false => Some(Order::Undo),
        };
        let Some(order) = order else { return };
        if orders.send(order).is_err() {
            return;
        }
    }
}

fn read_commands(input: &mut impl BufRead) -> Option<TrialCommands> {
    let name = read_part(input)?;
    let change = Program::parse(&read_part(input)?).ok()?;
    let undo = Program::parse(&read_part(input)?).ok()?;
    Some(TrialCommands { name, change, undo })
}

/// Reads a part of an order, or a reply. Returns `None` at the end, and for a part that was cut.
pub fn read_part(input: &mut impl BufRead) -> Option<String> {
    let mut bytes = Vec::new();
    input.read_until(0, &mut bytes).ok()?;
    (bytes.pop() == Some(0)).then(|| String::from_utf8_lossy(&bytes).into_owned())
}
