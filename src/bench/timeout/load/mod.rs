//! What is timed here and counted in the program beside this one: it knows neither, and imports nothing from above.

pub mod counted;
mod deadline;
pub mod guard;
pub mod guards;
pub mod loops;
pub mod variant;
