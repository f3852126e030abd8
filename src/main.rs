//! Measures how late periodic async tasks really are, and at what price.

fn main() {}
