//! The terminal while `top` runs: its own screen, and keys without a line feed.

use std::{
    io::{self, Write as _},
    time::{Duration, Instant},
};

use anstream::{AutoStream, ColorChoice, adapter::strip_str};
use anyhow::Context as _;
use crossterm::{
    cursor::{Hide, MoveTo, Show},
    event::{self, Event, KeyCode, KeyEventKind, KeyModifiers},
    execute, queue,
    style::Print,
    terminal::{
        self, Clear, ClearType, EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode,
        enable_raw_mode,
    },
};

/// The screen; dropping it restores the terminal.
pub(super) struct Screen(());

/// Why a wait is over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum WakeReason {
    /// The time is over.
    Time,
    /// The size of the terminal changed.
    Resized,
    /// The user wants to leave.
    Quit,
}

// === impl Screen ===

impl Screen {
    pub(super) fn open() -> anyhow::Result<Self> {
        enable_raw_mode().context("the terminal does not accept single keys; use --once")?;
        let screen = Self(());
        execute!(io::stdout(), EnterAlternateScreen, Hide)?;
        Ok(screen)
    }

    pub(super) fn height(&self) -> usize {
        terminal::size().map_or(24, |(_, height)| usize::from(height))
    }

    /// Shows `lines`, from the top.
    pub(super) fn draw(&self, lines: &[String]) -> io::Result<()> {
        // The lines always contain colours, also for a terminal without them.
        let is_plain = AutoStream::choice(&io::stdout()) == ColorChoice::Never;
        let mut out = io::stdout().lock();
        for (number, line) in lines.iter().take(self.height()).enumerate() {
            let row = u16::try_from(number).unwrap_or(u16::MAX);
            queue!(out, MoveTo(0, row), Clear(ClearType::UntilNewLine))?;
            match is_plain {
                true => queue!(out, Print(strip_str(line)))?,
                false => queue!(out, Print(line))?,
            }
        }
        queue!(out, Clear(ClearType::FromCursorDown))?;
        out.flush()
    }

    /// Waits for `time`, or until the user or the terminal requires an action.
    pub(super) fn wait(&self, time: Duration) -> io::Result<WakeReason> {
        let end = Instant::now() + time;
        loop {
            let left = end.saturating_duration_since(Instant::now());
            if !event::poll(left)? {
                return Ok(WakeReason::Time);
            }
            match event::read()? {
                Event::Key(key) if key.kind != KeyEventKind::Release => {
                    let is_control = key.modifiers.contains(KeyModifiers::CONTROL);
                    match key.code {
                        KeyCode::Char('q' | 'Q') | KeyCode::Esc => return Ok(WakeReason::Quit),
                        KeyCode::Char('c') if is_control => return Ok(WakeReason::Quit),
                        _ => {}
                    }
                }
                Event::Resize(..) => return Ok(WakeReason::Resized),
                _ => {}
            }
        }
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        // A failure cannot be reported any more.
        execute!(io::stdout(), Show, LeaveAlternateScreen).ok();
        disable_raw_mode().ok();
    }
}
