//! Names of the variants and clocks that are combined.

use clap::ValueEnum;
use serde::{Deserialize, Serialize};

/// A way to put a timeout around a wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ValueEnum)]
pub enum Variant {
    /// no timeout
    #[value(alias = "baseline")]
    Control,
    /// tokio::time::timeout around each wait
    Timeout,
    /// a Sleep made for each wait, polled after the message
    Sleep,
    /// one pinned Sleep, reset for each wait
    ReusedSleep,
    #[value(help = "the same in a Pin<Box<Sleep>>")]
    ReusedBoxedSleep,
    /// idletimeout::IdleTimeout, touched at each message
    IdleTimeout,
    /// the same with a slack of 10 %
    IdleTimeoutSlack,
}

/// The clock from which a deadline is computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ValueEnum)]
pub enum Clock {
    /// tokio's own
    Tokio,
    /// the CPU counter through tach
    Tach,
    /// the CPU counter through quanta
    Quanta,
}

impl Variant {
    /// Returns why the variant cannot use a clock, or `None` if it can.
    pub fn rejection_reason(self, clock: Clock) -> Option<&'static str> {
        match (self, clock) {
            (Self::Control, Clock::Tach | Clock::Quanta) => Some("it reads no clock"),
            (Self::Timeout, Clock::Tach | Clock::Quanta) => {
                Some("tokio::time::timeout reads tokio's clock itself")
            }
            (Self::IdleTimeout | Self::IdleTimeoutSlack, Clock::Quanta) => {
                Some("quanta states no error bound, without which it might fire early")
            }
            (_, Clock::Quanta) if cfg!(not(feature = "quanta")) => {
                Some("this binary was built without the feature quanta, which is a default one")
            }
            _ => None,
        }
    }
}
