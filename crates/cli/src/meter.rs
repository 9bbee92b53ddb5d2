//! Progress output on stderr: a bar for a call, a spinner while sources start.
//!
//! Invariant: bars and spinners are shown only on a terminal. Elsewhere the progress of a call is
//! printed as lines of text, and waiting is silent.

use std::{io::IsTerminal as _, time::Duration};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use toolcrib_core::call::{Progress, ProgressSink};

use crate::{printer::Printer, text::harmless};

/// Interval between two frames of a spinner.
const TICK: Duration = Duration::from_millis(120);
/// Length of a bar. Progress is scaled to it, because totals need not be integers.
const STEPS: u64 = 1_000;

/// The progress of one call.
pub(crate) struct Meter {
    printer: Printer,
    bar: Option<ProgressBar>,
}

/// A spinner, shown until it is dropped.
pub(crate) struct Spinner(Option<ProgressBar>);

impl Meter {
    pub(crate) fn new(printer: Printer) -> Self {
        Self { printer, bar: bar(printer) }
    }

    /// Removes the bar from the terminal.
    pub(crate) fn end(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

impl ProgressSink for Meter {
    fn report(&self, progress: Progress) {
        let Progress { progress, total, message } = progress;
        let Some(bar) = &self.bar else {
            let total = total.map(|total| format!("/{total}")).unwrap_or_default();
            let message = message.map(|text| format!(" {text}")).unwrap_or_default();
            return self.printer.note_foreign(&format!("progress {progress}{total}{message}"));
        };
        let message = harmless(&message.unwrap_or_default()).replace(['\n', '\t'], " ");
        let fraction = total.and_then(|total| Some(progress.as_f64()? / total.as_f64()?));
        match fraction.filter(|fraction| fraction.is_finite()) {
            Some(fraction) => {
                set_style(bar, "{bar:30} {percent}% {wide_msg}");
                bar.set_length(STEPS);
                bar.set_message(message);
                bar.set_position(steps(fraction));
            }
            None => {
                set_style(bar, "{spinner} {wide_msg}");
                bar.set_message(format!("{progress} {message}"));
                bar.tick();
            }
        }
    }
}

impl Spinner {
    /// Shows a spinner with `message`.
    pub(crate) fn start(printer: Printer, message: impl Into<String>) -> Self {
        let bar = bar(printer);
        if let Some(bar) = &bar {
            set_style(bar, "{spinner} {wide_msg}");
            bar.set_message(message.into());
            bar.enable_steady_tick(TICK);
        }
        Self(bar)
    }
}

impl Drop for Spinner {
    fn drop(&mut self) {
        if let Some(bar) = &self.0 {
            bar.finish_and_clear();
        }
    }
}

fn bar(printer: Printer) -> Option<ProgressBar> {
    let is_seen = std::io::stderr().is_terminal() && !printer.is_quiet();
    is_seen.then(|| ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr()))
}

fn set_style(bar: &ProgressBar, template: &str) {
    // The templates are constants and valid; an invalid one would leave the default style.
    if let Ok(style) = ProgressStyle::with_template(template) {
        bar.set_style(style);
    }
}

/// Returns `fraction` in steps of a bar.
fn steps(fraction: f64) -> u64 {
    // The cast saturates: negative numbers and NaN become 0.
    ((fraction * STEPS as f64) as u64).min(STEPS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fraction_is_a_part_of_the_bar() {
        assert_eq!(
            [0.0, 0.5, 1.0, 7.0, -1.0, f64::NAN].map(steps),
            [0, STEPS / 2, STEPS, STEPS, 0, 0]
        );
    }
}
