//! Where text goes: the only place that writes to a terminal.

use std::io::{self, IsTerminal, Write};

use anstream::AutoStream;
use serde::Serialize;

use crate::arguments::Form;

/// A stream that people or programs read. Colours are left out unless it is a terminal that wants them.
pub struct Output {
    stream: Box<dyn Write + Send>,
    is_terminal: bool,
    width: Option<usize>,
}

impl Output {
    /// The output of the program.
    pub fn stdout() -> Self {
        let stream = io::stdout();
        let is_terminal = stream.is_terminal();
        let width = width(is_terminal.then(|| rustix::termios::tcgetwinsize(&stream).ok()).flatten());
        Self { stream: Box::new(AutoStream::auto(stream)), is_terminal, width }
    }

    /// Where errors go.
    pub fn stderr() -> Self {
        let stream = io::stderr();
        let is_terminal = stream.is_terminal();
        Self { stream: Box::new(AutoStream::auto(stream)), is_terminal, width: None }
    }

    /// Any other place, without colours.
    pub fn plain(stream: impl Write + Send + 'static) -> Self {
        Self {
            stream: Box::new(anstream::StripStream::new(Box::new(stream) as Box<dyn Write + Send>)),
            is_terminal: false,
            width: None,
        }
    }

    /// Whether somebody looks on while it is written.
    pub fn is_terminal(&self) -> bool {
        self.is_terminal
    }

    /// How many columns there are: what `COLUMNS` says, or the terminal; `None` if nobody minds.
    pub fn width(&self) -> Option<usize> {
        self.width
    }

    /// Writes a text, at once.
    pub fn print(&mut self, text: &str) -> io::Result<()> {
        self.stream.write_all(text.as_bytes())?;
        self.stream.flush()
    }

    /// Writes something in the form that was asked for: as text for people, or as it is for programs.
    pub fn show<T: Serialize>(
        &mut self,
        form: Form,
        shown: &T,
        text: impl FnOnce() -> String,
    ) -> io::Result<()> {
        let text = match form {
            Form::Table => text(),
            Form::Json => serde_json::to_string_pretty(shown).map_err(io::Error::other)? + "\n",
            Form::Yaml => serde_saphyr::to_string(shown).map_err(io::Error::other)?,
        };
        self.print(&text)
    }
}

/// The width of a terminal, unless the environment says another one.
fn width(terminal: Option<rustix::termios::Winsize>) -> Option<usize> {
    let said = std::env::var("COLUMNS").ok().and_then(|columns| columns.parse().ok());
    said.or(terminal.map(|size| usize::from(size.ws_col))).filter(|width| *width > 0)
}
