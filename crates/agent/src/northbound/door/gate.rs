//! The door that every request passes: who is it, may they, is it too much, and does another page ask in their name?

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use axum::http::{HeaderMap, Method, Uri, header};

use super::session::Sessions;
use super::{AccessSettings, Caller, Peer, Role};

/// The header that a page of another origin cannot send.
const OURS: &str = "x-kilter";

/// How many callers are counted at once; whoever was quiet for longest is forgotten first.
const COUNTED: usize = 4096;

/// What those are called together who are not recognised.
const NOBODY: &str = "whoever is not known";

/// Why a request does not pass.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// Nobody knows who asks.
    #[error("nobody knows who asks, hint: send `Authorization: Bearer TOKEN`, or use a certificate")]
    Unknown,
    /// The role is not enough.
    #[error("`{name}` has the role `{has}`, and this needs `{needs}`")]
    Role {
        /// Who.
        name: String,
        /// What they have.
        has: Role,
        /// What they would need.
        needs: Role,
    },
    /// A browser asks, and not one of our pages.
    #[error("a page of another origin asks, hint: a program sends no `Origin`; a page sends `X-Kilter: 1`")]
    Foreign,
    /// Too much in too short a time.
    #[error("`{name}` asks too often, hint: try again in a second")]
    Often {
        /// Who.
        name: String,
    },
}

/// Recognises callers.
#[derive(Debug)]
pub struct Door {
    settings: AccessSettings,
    tokens: Vec<(blake3::Hash, Caller)>,
    sessions: Sessions,
    /// The user that runs the agent.
    own: u32,
    counts: Mutex<HashMap<String, (Instant, f64)>>,
}

impl Door {
    /// A door for these callers.
    ///
    /// # Errors
    /// The name of a token whose hash is not one.
    pub fn new(settings: AccessSettings) -> Result<Self, String> {
        let tokens = settings.tokens.iter().map(|rule| {
            let hash = blake3::Hash::from_hex(&rule.blake3).map_err(|_| rule.name.clone())?;
            Ok((hash, Caller { name: format!("token {}", rule.name), role: rule.role }))
        });
        Ok(Self {
            tokens: tokens.collect::<Result<_, String>>()?,
            settings,
            sessions: Sessions::new(),
            own: rustix::process::geteuid().as_raw(),
            counts: Mutex::default(),
        })
    }

    /// A token for the address of a page on this machine; good once.
    pub fn invite(&self) -> std::io::Result<String> {
        self.sessions.invite()
    }

    /// Begins the session of a token that was given in an address: what the browser is told to keep.
    pub fn begin_session(&self, token: &str) -> Option<String> {
        let session = self.sessions.begin(token)?;
        Some(format!("{}={session}; HttpOnly; SameSite=Strict; Path=/", self.sessions.cookie()))
    }

    /// Lets a request pass or not.
    ///
    /// 1. Who is it? 2. Is the role enough? 3. Does a page of another origin ask in their name? 4. Is it too often?
    pub fn pass(
        &self,
        peer: &Peer,
        method: &Method,
        uri: &Uri,
        headers: &HeaderMap,
        needs: Role,
    ) -> Result<Caller, Refusal> {
        let Some((caller, is_ambient)) = self.recognise(peer, headers) else {
            // Whoever guesses has one bucket with everybody who does.
            self.count(NOBODY)?;
            return Err(Refusal::Unknown); // 1
        };
        if caller.role < needs {
            return Err(Refusal::Role { name: caller.name, has: caller.role, needs }); // 2
        }
        if !is_from_here(uri, headers, is_ambient && !method.is_safe(), !method.is_safe()) {
            return Err(Refusal::Foreign); // 3
        }
        match peer {
            // However many processes a user has.
            Peer::Process { user: Some(user), .. } if bearer(headers).is_none() => {
                self.count(&format!("user {user}"))?; // 4
            }
            Peer::Process { .. } | Peer::Certified { .. } | Peer::Stranger { .. } => {
                self.count(&caller.name)?
            }
        }
        Ok(caller)
    }

    /// Who asks, and whether a browser would say so without being told to.
    fn recognise(&self, peer: &Peer, headers: &HeaderMap) -> Option<(Caller, bool)> {
        if let Some(token) = bearer(headers) {
            // Whoever names a token is whom the token names, or nobody.
            let hash = blake3::hash(token.as_bytes());
            return self.tokens.iter().find(|(known, _)| *known == hash).map(|(_, who)| (who.clone(), false));
        }
        match peer {
            Peer::Process { user, process } => self.of_process(*user, *process).map(|caller| (caller, false)),
            Peer::Certified { subject } => {
                let rule = self.settings.certificates.iter().find(|rule| rule.subject == *subject)?;
                Some((Caller { name: format!("certificate {subject}"), role: rule.role }, true))
            }
            Peer::Stranger { is_local } => {
                let knows = *is_local
                    && cookies(headers, self.sessions.cookie()).any(|session| self.sessions.knows(session));
                knows.then(|| (Caller { name: "page".to_owned(), role: Role::Admin }, true))
            }
        }
    }

    /// Root and the agent's own user may everything. Whoever else gets through the permissions of the socket's file may
    /// look.
    fn of_process(&self, user: Option<u32>, process: Option<i32>) -> Option<Caller> {
        let user = user?;
        let role = if user == 0 || user == self.own { Role::Admin } else { Role::Reader };
        let process = process.map(|process| format!(", process {process}")).unwrap_or_default();
        Some(Caller { name: format!("user {user}{process}"), role })
    }

    /// Each request takes one from a bucket that fills steadily and holds two seconds' worth.
    fn count(&self, name: &str) -> Result<(), Refusal> {
        let Some(rate) = self.settings.requests_per_second.map(f64::from) else { return Ok(()) };
        let now = Instant::now();
        let mut counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        if counts.len() >= COUNTED && !counts.contains_key(name) {
            let quietest = counts.iter().min_by_key(|(_, (last, _))| *last).map(|(name, _)| name.clone());
            quietest.and_then(|name| counts.remove(&name));
        }
        let (last, left) = counts.entry(name.to_owned()).or_insert((now, 2.0 * rate));
        *left = (*left + now.duration_since(*last).as_secs_f64() * rate).min(2.0 * rate);
        *last = now;
        if *left < 1.0 {
            return Err(Refusal::Often { name: name.to_owned() });
        }
        *left -= 1.0;
        Ok(())
    }
}

/// The token of a request.
fn bearer(headers: &HeaderMap) -> Option<&str> {
    let (scheme, token) = headers.get(header::AUTHORIZATION)?.to_str().ok()?.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim())
}

/// The sessions that a browser names.
fn cookies<'a>(headers: &'a HeaderMap, wanted: &'a str) -> impl Iterator<Item = &'a str> {
    let lines = headers.get_all(header::COOKIE).iter().filter_map(|line| line.to_str().ok());
    let pairs = lines.flat_map(|line| line.split(';')).filter_map(|pair| pair.trim().split_once('='));
    pairs.filter(move |(name, _)| *name == wanted).map(|(_, session)| session)
}

/// Whether no page of another origin asks.
///
/// A browser says where the page comes from that asks; a write must carry a header besides that another origin cannot
/// send, if the browser would be recognised by itself or says that it is one. Which host was asked stands in the address
/// with HTTP/2, and in a header with HTTP/1.1.
fn is_from_here(uri: &Uri, headers: &HeaderMap, must_say: bool, is_write: bool) -> bool {
    let text = |name: header::HeaderName| headers.get(name).map(|value| value.to_str().unwrap_or("?"));
    let host = uri.authority().map(|authority| authority.as_str()).or(text(header::HOST)).unwrap_or_default();
    let is_browser = match text(header::ORIGIN) {
        Some(origin) if origin.split_once("://").is_some_and(|(_, at)| at == host) => true,
        Some(_) => return false,
        None => false,
    };
    let site = headers.get("sec-fetch-site").map(|value| value.to_str().unwrap_or("?"));
    if is_write && !matches!(site, None | Some("same-origin" | "none")) {
        return false;
    }
    let needs_ours = must_say || (is_write && (is_browser || site.is_some()));
    !needs_ours || headers.contains_key(OURS)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::northbound::door::{CertificateRule, TokenRule};

    fn door(requests_per_second: Option<u32>) -> Door {
        let tokens = [("ci", Role::Operator), ("eye", Role::Reader)].map(|(name, role)| TokenRule {
            name: name.to_owned(),
            role,
            blake3: blake3::hash(format!("secret of {name}").as_bytes()).to_string(),
        });
        let certificates = vec![CertificateRule { subject: "ops".to_owned(), role: Role::Operator }];
        Door::new(AccessSettings { certificates, tokens: tokens.to_vec(), requests_per_second }).unwrap()
    }

    fn headers(lines: &[(&'static str, &str)]) -> HeaderMap {
        lines.iter().map(|(name, value)| ((*name).parse().unwrap(), value.parse().unwrap())).collect()
    }

    const STRANGER: Peer = Peer::Stranger { is_local: true };

    /// An address as HTTP/1.1 says it: the host stands in a header.
    fn here() -> Uri {
        Uri::from_static("/api/v1/items")
    }

    #[test]
    fn whoever_is_not_recognised_may_nothing() {
        let door = door(None);
        let pass = |peer: &Peer, lines: &[(&'static str, &str)]| {
            door.pass(peer, &Method::GET, &here(), &headers(lines), Role::Reader)
        };
        assert_eq!(pass(&STRANGER, &[]), Err(Refusal::Unknown));
        assert_eq!(pass(&STRANGER, &[("authorization", "Bearer guess")]), Err(Refusal::Unknown));
        let guess = format!("{}=guess", door.sessions.cookie());
        assert_eq!(pass(&STRANGER, &[("cookie", &guess)]), Err(Refusal::Unknown));
        assert_eq!(pass(&Peer::Certified { subject: "eve".to_owned() }, &[]), Err(Refusal::Unknown));
        assert_eq!(pass(&Peer::Process { user: None, process: Some(1) }, &[]), Err(Refusal::Unknown));
        // A wrong token is not made good by who else one is.
        let root = Peer::Process { user: Some(0), process: Some(7) };
        assert_eq!(pass(&root, &[("authorization", "Bearer guess")]), Err(Refusal::Unknown));
        assert_eq!(pass(&root, &[]), Ok(Caller { name: "user 0, process 7".to_owned(), role: Role::Admin }));
        let other = Peer::Process { user: Some(65_000), process: None };
        assert_eq!(pass(&other, &[]).unwrap().role, Role::Reader);
    }

    #[test]
    fn a_reader_cannot_write() {
        let door = door(None);
        let eye = headers(&[("authorization", "Bearer secret of eye")]);
        assert_eq!(
            door.pass(&STRANGER, &Method::GET, &here(), &eye, Role::Reader).unwrap().name,
            "token eye"
        );
        let refused = door.pass(&STRANGER, &Method::POST, &here(), &eye, Role::Operator).unwrap_err();
        assert_eq!(refused.to_string(), "`token eye` has the role `reader`, and this needs `operator`");
    }

    #[test]
    fn a_token_in_an_address_is_good_once() {
        let door = door(None);
        let token = door.invite().unwrap();
        let cookie = door.begin_session(&token).unwrap();
        assert_eq!(door.begin_session(&token), None);
        let session = cookie.split(';').next().unwrap();
        assert!(cookie.contains("HttpOnly") && cookie.contains("SameSite=Strict"));
        let page = headers(&[("cookie", session)]);
        assert_eq!(door.pass(&STRANGER, &Method::GET, &here(), &page, Role::Admin).unwrap().name, "page");
        let away = Peer::Stranger { is_local: false };
        assert_eq!(door.pass(&away, &Method::GET, &here(), &page, Role::Reader), Err(Refusal::Unknown));
    }

    #[test]
    fn a_page_of_another_origin_cannot_write_in_the_name_of_a_certificate() {
        let door = door(None);
        let ops = Peer::Certified { subject: "ops".to_owned() };
        let write = |lines: &[(&'static str, &str)]| {
            door.pass(&ops, &Method::POST, &here(), &headers(lines), Role::Operator)
        };
        let (host, ours) = (("host", "agent:7480"), ("x-kilter", "1"));
        assert_eq!(write(&[host]), Err(Refusal::Foreign));
        assert!(write(&[host, ours]).is_ok());
        assert!(write(&[host, ours, ("origin", "https://agent:7480")]).is_ok());
        assert_eq!(write(&[host, ours, ("origin", "https://evil")]), Err(Refusal::Foreign));
        assert_eq!(write(&[host, ours, ("sec-fetch-site", "cross-site")]), Err(Refusal::Foreign));
        // Over HTTP/2 there is no such header.
        let whole = Uri::from_static("https://agent:7480/api/v1/items");
        let over_h2 = |origin| {
            let headers = headers(&[ours, ("origin", origin)]);
            door.pass(&ops, &Method::POST, &whole, &headers, Role::Operator)
        };
        assert!(over_h2("https://agent:7480").is_ok());
        assert_eq!(over_h2("https://evil"), Err(Refusal::Foreign));
        let read = headers(&[host, ("origin", "https://evil")]);
        assert_eq!(door.pass(&ops, &Method::GET, &here(), &read, Role::Reader), Err(Refusal::Foreign));
    }

    #[test]
    fn whoever_asks_too_often_is_told_so_and_others_are_not() {
        let door = door(Some(2));
        let ask = |who: &str| {
            let headers = headers(&[("authorization", &format!("Bearer secret of {who}"))]);
            door.pass(&STRANGER, &Method::GET, &here(), &headers, Role::Reader)
        };
        for _ in 0..4 {
            ask("ci").unwrap();
        }
        assert_eq!(ask("ci"), Err(Refusal::Often { name: "token ci".to_owned() }));
        for _ in 0..4 {
            assert_eq!(ask("guess"), Err(Refusal::Unknown));
        }
        assert_eq!(ask("other guess"), Err(Refusal::Often { name: NOBODY.to_owned() }));
        ask("eye").unwrap();
        let mut process = 0;
        let mut local = || {
            process += 1;
            let peer = Peer::Process { user: Some(7), process: Some(process) };
            door.pass(&peer, &Method::GET, &here(), &headers(&[]), Role::Reader)
        };
        for _ in 0..4 {
            local().unwrap();
        }
        assert_eq!(local(), Err(Refusal::Often { name: "user 7".to_owned() }), "in whatever process");
    }
}
