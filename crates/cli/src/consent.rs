//! Asking a person: the plan is shown, and nothing is done without a yes.

use std::io::{self, BufRead as _, IsTerminal as _};

use crate::output::Output;

/// Whether somebody is there who can be asked.
pub(crate) fn can_be_asked(output: &Output) -> bool {
    output.is_terminal() && io::stdin().is_terminal()
}

/// Asks, and takes anything but a yes for a no.
pub(crate) fn ask(output: &mut Output, question: &str) -> io::Result<bool> {
    output.print(&format!("{question} [y/N] "))?;
    let mut answer = String::new();
    io::stdin().lock().read_line(&mut answer)?;
    Ok(matches!(answer.trim(), "y" | "Y" | "yes"))
}
