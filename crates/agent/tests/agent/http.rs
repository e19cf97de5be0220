//! A client that says exactly what a test wants, good or bad, over any stream.

use std::time::Duration;

use serde_json::Value;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};

/// As long as an answer may take before the test has failed.
pub(crate) const PATIENCE: Duration = Duration::from_secs(90);

/// An answer.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) head: String,
    pub(crate) body: Vec<u8>,
}

impl Answer {
    /// The body as text.
    pub(crate) fn text(&self) -> &str {
        std::str::from_utf8(&self.body).unwrap()
    }

    /// The body as JSON.
    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|error| panic!("{error}: {}", self.text()))
    }

    /// A line of the head.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.head.lines().find_map(|line| {
            let (key, value) = line.split_once(':')?;
            key.eq_ignore_ascii_case(name).then(|| value.trim())
        })
    }
}

/// Sends a request and reads its answer to the end of the connection.
pub(crate) async fn exchange(mut stream: impl AsyncRead + AsyncWrite + Unpin, request: &[u8]) -> Answer {
    let exchanged = async {
        // Whoever refuses a request need not read all of it.
        let _ = stream.write_all(request).await;
        let mut bytes = Vec::new();
        let _ = stream.read_to_end(&mut bytes).await;
        bytes
    };
    let bytes = tokio::time::timeout(PATIENCE, exchanged).await.expect("an answer comes in time");
    parse(&bytes)
}

fn parse(bytes: &[u8]) -> Answer {
    let end = bytes.windows(4).position(|four| four == b"\r\n\r\n");
    let end = end.unwrap_or_else(|| panic!("no head in {:?}", String::from_utf8_lossy(bytes)));
    let head = String::from_utf8_lossy(&bytes[..end]).into_owned();
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    let body = bytes[end + 4..].to_vec();
    let answer = Answer { status, head, body };
    match answer.header("transfer-encoding") {
        Some("chunked") => {
            let mut body = Vec::new();
            unchunk(&answer.body, &mut body);
            Answer { body, ..answer }
        }
        _ => answer,
    }
}

/// Appends the content of the chunks that are whole; how many bytes those are.
pub(crate) fn unchunk(bytes: &[u8], content: &mut Vec<u8>) -> usize {
    let mut at = 0;
    while let Some(end) = bytes[at..].windows(2).position(|two| two == b"\r\n") {
        let length = usize::from_str_radix(std::str::from_utf8(&bytes[at..at + end]).unwrap(), 16).unwrap();
        let begin = at + end + 2;
        if length == 0 || bytes.len() < begin + length + 2 {
            break;
        }
        content.extend(&bytes[begin..begin + length]);
        at = begin + length + 2;
    }
    at
}

/// A request as it is written.
pub(crate) fn request(method: &str, path: &str, headers: &[&str], body: &str) -> Vec<u8> {
    let mut text = format!("{method} {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n");
    for header in headers {
        text.push_str(header);
        text.push_str("\r\n");
    }
    if !body.is_empty() {
        text.push_str(&format!("content-type: application/json\r\ncontent-length: {}\r\n", body.len()));
    }
    text.push_str("\r\n");
    text.push_str(body);
    text.into_bytes()
}
