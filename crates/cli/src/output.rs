//! Where text goes: the only place that writes to a terminal.

use std::io::{self, IsTerminal, Write};

use anstream::AutoStream;

/// A stream that people or programs read. Colours are left out unless it is a terminal that wants them.
pub struct Output {
    stream: Box<dyn Write + Send>,
    is_terminal: bool,
}

impl Output {
    /// The output of the program.
    pub fn stdout() -> Self {
        let stream = io::stdout();
        let is_terminal = stream.is_terminal();
        Self { stream: Box::new(AutoStream::auto(stream)), is_terminal }
    }

    /// Where errors go.
    pub fn stderr() -> Self {
        let stream = io::stderr();
        let is_terminal = stream.is_terminal();
        Self { stream: Box::new(AutoStream::auto(stream)), is_terminal }
    }

    /// Any other place, without colours.
    pub fn plain(stream: impl Write + Send + 'static) -> Self {
        Self {
            stream: Box::new(anstream::StripStream::new(Box::new(stream) as Box<dyn Write + Send>)),
            is_terminal: false,
        }
    }

    /// Whether somebody looks on while it is written.
    pub fn is_terminal(&self) -> bool {
        self.is_terminal
    }

    /// Writes a text, at once.
    pub fn print(&mut self, text: &str) -> io::Result<()> {
        self.stream.write_all(text.as_bytes())?;
        self.stream.flush()
    }
}
