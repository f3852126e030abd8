//! The axes of all charts: linear, logarithmic, or of percentiles.
//!
//! They have one type, because plotters is compiled again for each pair of types of axes.

use std::ops::Range;

use plotters::coord::ranged1d::{KeyPointHint, NoDefaultFormatting, Ranged, ValueFormatter};
use plotters::coord::types::RangedCoordf64;
use plotters::prelude::{IntoLogRange, LogCoord};

use crate::picture::nines;

/// Width of the labels of the other axis, and of the margins.
const LABELS_WIDTH: u32 = 100;

/// An axis with a scale and marks.
pub struct Axis {
    scale: Scale,
    /// The values with a label; `None` for those that plotters chooses.
    marks: Option<Vec<f64>>,
}

enum Scale {
    Linear(RangedCoordf64),
    Logarithmic(LogCoord<f64>),
    /// Percentiles in nines, up to this position, with labels for this width in pixels.
    Nines {
        end: f64,
        width: u32,
    },
}

impl Axis {
    /// Returns a linear axis.
    pub fn linear(range: Range<f64>) -> Self {
        Self { scale: Scale::Linear(range.into()), marks: None }
    }

    /// Returns a logarithmic axis.
    pub fn logarithmic(range: Range<f64>) -> Self {
        Self { scale: Scale::Logarithmic(range.log_scale().into()), marks: None }
    }

    /// Returns a logarithmic axis with these marks.
    pub fn logarithmic_with_marks(range: Range<f64>, marks: Vec<f64>) -> Self {
        Self { marks: Some(marks), ..Self::logarithmic(range) }
    }

    /// Returns the axis of percentiles, from the smallest sample to the [position](nines::position)
    /// `end`, in a chart of `width` pixels with the labels of its other axis.
    pub fn percentiles(end: f64, width: u32) -> Self {
        let width = width.saturating_sub(LABELS_WIDTH);
        Self { scale: Scale::Nines { end, width }, marks: None }
    }
}

impl Ranged for Axis {
    type FormatOption = NoDefaultFormatting;
    type ValueType = f64;

    fn map(&self, value: &f64, pixels: (i32, i32)) -> i32 {
        match &self.scale {
            Scale::Linear(scale) => scale.map(value, pixels),
            Scale::Logarithmic(scale) => scale.map(value, pixels),
            Scale::Nines { end, .. } => {
                let (from, to) = pixels;
                from + (value / end * f64::from(to - from)).round() as i32
            }
        }
    }

    fn key_points<Hint: KeyPointHint>(&self, hint: Hint) -> Vec<f64> {
        match (&self.marks, &self.scale) {
            // Between these marks, there are no fine lines.
            (Some(_), _) if hint.weight().allow_light_points() => Vec::new(),
            (Some(marks), _) => marks.clone(),
            (None, Scale::Linear(scale)) => scale.key_points(hint),
            (None, Scale::Logarithmic(scale)) => scale.key_points(hint),
            (None, Scale::Nines { end, width }) => nines::marks(*end, *width),
        }
    }

    fn range(&self) -> Range<f64> {
        match &self.scale {
            Scale::Linear(scale) => scale.range(),
            Scale::Logarithmic(scale) => scale.range(),
            Scale::Nines { end, .. } => 0.0..*end,
        }
    }
}

impl ValueFormatter<f64> for Axis {
    fn format_ext(&self, value: &f64) -> String {
        match &self.scale {
            Scale::Linear(scale) => scale.format_ext(value),
            Scale::Logarithmic(scale) => scale.format_ext(value),
            Scale::Nines { .. } => nines::label(*value),
        }
    }
}
