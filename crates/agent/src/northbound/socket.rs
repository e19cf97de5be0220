//! The agent's socket: a file that only its owner and its group may open.

use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

use kilter_linux::inherited::Held;

/// Owner and group may connect; nobody else.
const MODE: u32 = 0o660;

/// Why the socket could not be opened.
#[derive(Debug, thiserror::Error)]
pub enum SocketError {
    /// An agent listens there.
    #[error("another agent listens at `{}`, hint: stop it, or name another socket with `--socket`", .0.display())]
    Taken(PathBuf),
    /// The folder or the file cannot be made.
    #[error("failed to open the socket `{}`", .path.display())]
    Unopened {
        /// The socket.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
}

/// A socket that is listened to; its file goes with it.
#[derive(Debug)]
pub struct Socket {
    path: PathBuf,
    listener: UnixListener,
    /// The process that made it: one that was forked off does not remove the file. `None` if the file is not ours.
    process: Option<u32>,
}

impl Socket {
    /// The socket that was held for this agent while it was not there, or a new one.
    pub fn take(path: &Path, held: Option<(UnixListener, Held)>) -> Result<Self, SocketError> {
        let Some((listener, held)) = held else { return Self::open(path) };
        let unopened = |source| SocketError::Unopened { path: path.to_owned(), source };
        listener.set_nonblocking(true).map_err(unopened)?;
        let process = (held == Held::ByPredecessor).then(std::process::id);
        Ok(Self { path: path.to_owned(), listener, process })
    }

    /// Opens a socket. What a dead agent left there is replaced.
    ///
    /// **Guarantees** that the file is never there with other permissions than its own.
    pub fn open(path: &Path) -> Result<Self, SocketError> {
        let unopened = |source| SocketError::Unopened { path: path.to_owned(), source };
        if UnixStream::connect(path).is_ok() {
            return Err(SocketError::Taken(path.to_owned()));
        }
        let process = std::process::id();
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
        folder.map_or(Ok(()), std::fs::create_dir_all).map_err(unopened)?;
        let mut name = std::ffi::OsString::from(".");
        name.push(path.file_name().unwrap_or_default());
        name.push(format!(".{process}"));
        let unfinished = path.with_file_name(name);
        let _ = std::fs::remove_file(&unfinished);
        let listener = UnixListener::bind(&unfinished).map_err(unopened)?;
        let placed = std::fs::set_permissions(&unfinished, std::fs::Permissions::from_mode(MODE))
            .and_then(|()| listener.set_nonblocking(true))
            .and_then(|()| std::fs::rename(&unfinished, path));
        if let Err(error) = placed {
            let _ = std::fs::remove_file(&unfinished);
            return Err(unopened(error));
        }
        Ok(Self { path: path.to_owned(), listener, process: Some(process) })
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Leaves the socket to the program that this process is about to become. The file stays.
    pub(crate) fn leave(mut self) -> io::Result<OwnedFd> {
        self.process = None;
        self.listener.try_clone().map(OwnedFd::from)
    }

    /// Another handle of what is listened to.
    pub(crate) fn listener(&self) -> io::Result<UnixListener> {
        self.listener.try_clone()
    }
}

impl Drop for Socket {
    fn drop(&mut self) {
        if self.process == Some(std::process::id()) {
            // Whoever removed it already has done what is to be done.
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(name: &str) -> PathBuf {
        std::env::temp_dir().join(format!("kilter-{name}-{}", std::process::id())).join("deep/kilter.sock")
    }

    #[test]
    fn a_socket_is_for_its_owner_and_group_and_goes_with_the_agent() {
        let path = place("own");
        let socket = Socket::open(&path).unwrap();
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, MODE);
        assert!(matches!(Socket::open(&path), Err(SocketError::Taken(_))));
        drop(socket);
        assert!(!path.exists());
    }

    #[test]
    fn what_a_dead_agent_left_is_replaced() {
        let path = place("dead");
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        drop(UnixListener::bind(&path).unwrap());
        assert!(path.exists());
        Socket::open(&path).unwrap();
    }
}
