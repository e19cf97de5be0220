//! Sessions of the page that `kilter up` serves: a token in its address is good once, and begins a session.

use std::sync::{Mutex, PoisonError};

/// Tokens that are good once, and the sessions that they began.
#[derive(Debug)]
pub(super) struct Sessions {
    /// The name of the cookie that holds a session.
    ///
    /// **Why** one of its own: a browser keeps the cookies of all ports of a machine together, and two agents must not
    /// end each other's sessions.
    cookie: String,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// Tokens that nobody has used.
    unused: Vec<blake3::Hash>,
    /// Sessions that were begun.
    begun: Vec<blake3::Hash>,
}

impl Sessions {
    /// No session yet.
    pub(super) fn new() -> Self {
        Self { cookie: format!("kilter-{}", std::process::id()), state: Mutex::default() }
    }

    /// The name of the cookie that holds a session.
    pub(super) fn cookie(&self) -> &str {
        &self.cookie
    }

    /// Makes a token. The kernel's randomness is its only source.
    pub(super) fn invite(&self) -> std::io::Result<String> {
        let token = secret()?;
        self.lock().unused.push(blake3::hash(token.as_bytes()));
        Ok(token)
    }

    /// Uses a token: the secret of the session it begins, or `None` if it is not good any more.
    pub(super) fn begin(&self, token: &str) -> Option<String> {
        let session = secret().ok()?;
        let hash = blake3::hash(token.as_bytes());
        let mut state = self.lock();
        let at = state.unused.iter().position(|unused| *unused == hash)?;
        state.unused.swap_remove(at);
        state.begun.push(blake3::hash(session.as_bytes()));
        Some(session)
    }

    /// Whether a session was begun.
    pub(super) fn knows(&self, session: &str) -> bool {
        let hash = blake3::hash(session.as_bytes());
        self.lock().begun.contains(&hash)
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, State> {
        // The lists are whole between any two of their changes.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Two hundred and fifty-six random bits, in hexadecimal.
fn secret() -> std::io::Result<String> {
    use std::io::Read as _;
    let mut bytes = [0; 32];
    std::fs::File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}
