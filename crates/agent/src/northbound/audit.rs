//! Who did what: audit records, each chained to the one before.
//!
//! Decided here: what a record says, and that nobody changes one without being noticed: each holds the hash of the one
//! before, so that an edited, removed or inserted record breaks the chain from there on. Not decided here: what is
//! worth a record; the routes that change something say so.
//!
//! **Assumes** that whoever wants to notice a chain that was cut off or written anew as a whole keeps its last hash
//! somewhere else: `GET /api/v1/audit` tells it.

use std::collections::VecDeque;
use std::fs::{File, OpenOptions};
use std::io::{self, BufRead as _, BufReader, Read, Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, SystemTime};

use kilter_api::v1::{Problem, TransactionSummary};
use kilter_cli::Output;
use kilter_events::chain;
use kilter_scheduler::render::one_line;
use serde::{Deserialize, Serialize};

use super::door::{Caller, Role};

/// The longest line that is a record.
///
/// **Assumes** that it is more than six fields of the longest text take, each letter written as six.
const LONGEST: u64 = 1 << 20;

/// As many bytes of a text as are recorded: the line stays one that can be read again, whatever a client says.
const LONGEST_TEXT: usize = 16 << 10;

/// How many records are owed at most; of more, the oldest are only said.
const MOST_OWED: usize = 1024;

/// When it is tried again to write what is owed.
const AGAIN: Duration = Duration::from_secs(1);

/// Something that was asked, or how it ended.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Deed {
    /// Who: `user 0, process 17`, `certificate ops`, `token ci`, `page`.
    pub who: String,
    /// Their role.
    pub role: String,
    /// What was asked, as the service calls it: `Apply`.
    pub what: String,
    /// Why, in their words; empty if they gave none.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub description: String,
    /// The hash of the plan that was carried out, or that was the only one to be carried out.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub plan: String,
    /// The transaction.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub txn: Option<u64>,
    /// How it ended; empty where it begins.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub ended: String,
}

/// A record as it is written: one line.
#[derive(Serialize, Deserialize)]
struct Line {
    /// Its position, from 1.
    seq: u64,
    /// When, in nanoseconds since 1970.
    at: u64,
    #[serde(flatten)]
    deed: Deed,
    /// The hash of the record before; empty for the first.
    previous: String,
    /// The hash of this record without this field.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    hash: String,
}

impl Deed {
    /// The same with no text longer than may be recorded.
    fn shortened(mut self) -> Self {
        let texts = [
            &mut self.who,
            &mut self.role,
            &mut self.what,
            &mut self.description,
            &mut self.plan,
            &mut self.ended,
        ];
        for text in texts.into_iter().filter(|text| text.len() > LONGEST_TEXT) {
            let length = text.len();
            text.truncate(text.floor_char_boundary(LONGEST_TEXT));
            text.push_str(&format!("… ({length} bytes)"));
        }
        self
    }
}

impl Line {
    fn digest(&mut self) -> io::Result<String> {
        self.hash.clear();
        Ok(blake3::hash(&serde_json::to_vec(self)?).to_string())
    }
}

/// Why there is no audit.
#[derive(Debug, thiserror::Error)]
pub enum AuditError {
    /// The records cannot be read or written.
    #[error("failed to keep the audit records `{}`", .path.display())]
    Unkept {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// Somebody changed the records.
    #[error("the audit records `{}` were changed at line {line}: {why}, hint: move the file away and look into it", .path.display())]
    Changed {
        /// The file.
        path: PathBuf,
        /// The first line that is not as it was written.
        line: u64,
        /// What is wrong with it.
        why: String,
    },
}

/// What a chain holds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Chain {
    /// How many records.
    pub records: u64,
    /// The hash of the last one, which stands for all of them; empty if there is none.
    pub head: String,
    /// The first line that is not as it was written, and what is wrong with it.
    pub broken: Option<(u64, String)>,
}

struct Tail {
    file: File,
    chain: Chain,
    /// What was done although it could not be recorded, each with its moment: it is recorded before anything else.
    owed: VecDeque<(u64, Deed)>,
}

/// The audit records of one agent.
pub struct Audit {
    path: PathBuf,
    tail: Mutex<Tail>,
}

impl Audit {
    /// Opens the records, and goes on where they end. A last line that a power cut tore is cut off, and that is told in
    /// the next record.
    ///
    /// # Errors
    /// If they cannot be kept, or if somebody changed them.
    pub fn open(path: &Path) -> Result<Self, AuditError> {
        let unkept = |source| AuditError::Unkept { path: path.to_owned(), source };
        let mut file = OpenOptions::new().read(true).append(true).create(true).open(path).map_err(unkept)?;
        let torn = cut_torn(&mut file).map_err(unkept)?;
        let chain = follow(&mut file).map_err(unkept)?;
        if let Some((line, why)) = chain.broken {
            return Err(AuditError::Changed { path: path.to_owned(), line, why });
        }
        let audit =
            Self { path: path.to_owned(), tail: Mutex::new(Tail { file, chain, owed: VecDeque::new() }) };
        if torn > 0 {
            let what = format!("cut off {torn} bytes of a record that was not finished");
            audit.record(Deed { who: "agent".to_owned(), what, ..Deed::default() })?;
        }
        Ok(audit)
    }

    /// Writes a record.
    ///
    /// **Guarantees** that it is on disk when this returns.
    pub fn record(&self, deed: Deed) -> Result<(), AuditError> {
        let mut tail = self.tail();
        let written = write_owed(&mut tail).and_then(|()| write(&mut tail, now(), deed));
        written.map_err(|source| self.unkept(source))
    }

    /// Writes a record, or says it and writes it as soon as that can be done: of what must be done also if it cannot be
    /// recorded. Whether it is on disk.
    pub fn record_or_owe(&self, deed: Deed) -> bool {
        let Err(error) = self.record(deed.clone()) else { return true };
        let mut tail = self.tail();
        let text = format!(
            "warning: not recorded yet: {} of {}{}: {}\n",
            one_line(&deed.what),
            one_line(&deed.who),
            if deed.ended.is_empty() { String::new() } else { format!(", {}", one_line(&deed.ended)) },
            chain(&error)
        );
        // Whoever does not read what is told is no reason not to do it.
        let _ = Output::stderr().print(&text);
        if tail.owed.len() >= MOST_OWED {
            tail.owed.pop_front();
        }
        tail.owed.push_back((now(), deed.shortened()));
        false
    }

    /// Writes what is owed; whether nothing is.
    pub fn settle(&self) -> bool {
        write_owed(&mut self.tail()).is_ok()
    }

    fn tail(&self) -> MutexGuard<'_, Tail> {
        self.tail.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn unkept(&self, source: io::Error) -> AuditError {
        AuditError::Unkept { path: self.path.clone(), source }
    }

    /// Reads all records again and follows the chain.
    pub fn verify(&self) -> Result<Chain, AuditError> {
        let tail = self.tail();
        let file = File::open(&self.path).map_err(|source| self.unkept(source));
        let mut chain = follow(&mut file?).map_err(|source| self.unkept(source))?;
        if chain.broken.is_none() && chain != tail.chain {
            let why = format!("{} records were written, and {} are there", tail.chain.records, chain.records);
            chain.broken = Some((chain.records + 1, why));
        }
        Ok(chain)
    }
}

/// Now, in nanoseconds since 1970.
fn now() -> u64 {
    let at = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    u64::try_from(at.as_nanos()).unwrap_or(u64::MAX)
}

/// Writes what is owed, in its order.
fn write_owed(tail: &mut Tail) -> io::Result<()> {
    while let Some((at, deed)) = tail.owed.front().cloned() {
        write(tail, at, deed)?;
        tail.owed.pop_front();
    }
    Ok(())
}

fn write(tail: &mut Tail, at: u64, deed: Deed) -> io::Result<()> {
    let seq = tail.chain.records + 1;
    let deed = deed.shortened();
    let mut line = Line { seq, at, deed, previous: tail.chain.head.clone(), hash: String::new() };
    line.hash = line.digest()?;
    let mut text = serde_json::to_vec(&line)?;
    text.push(b'\n');
    let end = tail.file.seek(SeekFrom::End(0))?;
    if let Err(error) = tail.file.write_all(&text).and_then(|()| tail.file.sync_data()) {
        // What was half written would look like a change that somebody made.
        let _ = tail.file.set_len(end);
        return Err(error);
    }
    tail.chain = Chain { records: seq, head: line.hash, broken: None };
    Ok(())
}

/// Sees one change through, and records who asked for it and how it ended.
pub(super) struct Witness {
    audit: Option<Arc<Audit>>,
    role: Role,
    deed: Deed,
}

impl Witness {
    /// Records what is asked before anything is done about it.
    ///
    /// # Errors
    /// If it cannot be recorded: then it must not be done.
    pub(super) async fn begin(
        audit: Option<Arc<Audit>>,
        caller: &Caller,
        what: &str,
    ) -> Result<Self, AuditError> {
        let (who, role) = (caller.name.clone(), caller.role.name().to_owned());
        let deed = Deed { who, role, what: what.to_owned(), ..Deed::default() };
        let witness = Self { audit, role: caller.role, deed };
        witness.write().await?;
        Ok(witness)
    }

    /// Records what is asked, now or as soon as that can be done: it must be done also on a disk that is full.
    pub(super) async fn begin_owing(audit: Option<Arc<Audit>>, caller: &Caller, what: &str) -> Self {
        let (who, role) = (caller.name.clone(), caller.role.name().to_owned());
        let deed = Deed { who, role, what: what.to_owned(), ..Deed::default() };
        let witness = Self { audit, role: caller.role, deed };
        witness.write_or_owe().await;
        witness
    }

    /// Who asked.
    pub(super) fn who(&self) -> &str {
        &self.deed.who
    }

    /// What they may.
    pub(super) fn role(&self) -> Role {
        self.role
    }

    /// Adds why it is asked, and which plan may be carried out.
    pub(super) fn describe(&mut self, description: &str, plan: &str) {
        (self.deed.description, self.deed.plan) = (description.to_owned(), plan.to_owned());
    }

    /// Records how something ended that is answered at once, and passes the answer on.
    pub(super) async fn seen<T>(mut self, answer: Result<T, Problem>) -> Result<T, Problem> {
        match &answer {
            Ok(_) => self.end(None, "done").await,
            Err(problem) => self.end(None, &problem.message).await,
        }
        answer
    }

    /// Records the transaction that it ended with, or that there was nothing to do.
    pub(super) async fn end_with(&mut self, txn: Option<&TransactionSummary>) {
        let outcome = txn.map(|txn| txn.outcome().name());
        self.end(txn.map(|txn| txn.seq), outcome.as_deref().unwrap_or("nothing to do")).await;
    }

    /// Notes the plan that is carried out.
    pub(super) fn planned(&mut self, hash: &str) {
        hash.clone_into(&mut self.deed.plan);
    }

    /// Records how it ended.
    pub(super) async fn end(&mut self, txn: Option<u64>, how: &str) {
        (self.deed.txn, self.deed.ended) = (txn, how.to_owned());
        // A disk that has filled up since does not undo what was done.
        self.write_or_owe().await;
    }

    /// Writes on a thread where waiting for a disk holds up nobody.
    async fn write(&self) -> Result<(), AuditError> {
        let Some(audit) = self.audit.clone() else { return Ok(()) };
        let deed = self.deed.clone();
        let path = audit.path.clone();
        let written = tokio::task::spawn_blocking(move || audit.record(deed)).await;
        written.unwrap_or_else(|error| Err(AuditError::Unkept { path, source: io::Error::other(error) }))
    }
}

impl Witness {
    /// Writes, or sees to it that it is written as soon as that can be done.
    async fn write_or_owe(&self) {
        let Some(audit) = self.audit.clone() else { return };
        let (deed, owing) = (self.deed.clone(), Arc::downgrade(&audit));
        let written = tokio::task::spawn_blocking(move || audit.record_or_owe(deed)).await;
        if !written.unwrap_or(true) {
            tokio::spawn(settle(owing));
        }
    }
}

/// Tries to write what is owed until nothing is, or nobody keeps records any more.
async fn settle(owing: Weak<Audit>) {
    loop {
        tokio::time::sleep(AGAIN).await;
        let Some(audit) = owing.upgrade() else { return };
        if tokio::task::spawn_blocking(move || audit.settle()).await.unwrap_or(true) {
            return;
        }
    }
}

/// Cuts off a last line without an end: how many bytes.
fn cut_torn(file: &mut File) -> io::Result<u64> {
    let length = file.seek(SeekFrom::End(0))?;
    let begin = length.saturating_sub(LONGEST);
    file.seek(SeekFrom::Start(begin))?;
    let mut end = Vec::new();
    Read::take(&mut *file, LONGEST).read_to_end(&mut end)?;
    let kept = match end.iter().rposition(|byte| *byte == b'\n') {
        Some(at) => begin + at as u64 + 1,
        None => begin,
    };
    if kept < length {
        file.set_len(kept)?;
    }
    Ok(length - kept)
}

/// Follows a chain from its beginning to its end, or to where it is broken.
fn follow(file: &mut File) -> io::Result<Chain> {
    file.seek(SeekFrom::Start(0))?;
    let mut lines = BufReader::new(file);
    let mut chain = Chain::default();
    let mut text = Vec::new();
    loop {
        text.clear();
        if lines.by_ref().take(LONGEST).read_until(b'\n', &mut text)? == 0 {
            return Ok(chain);
        }
        match link(&text, &chain)? {
            Ok(head) => chain = Chain { records: chain.records + 1, head, broken: None },
            Err(why) => {
                chain.broken = Some((chain.records + 1, why));
                return Ok(chain);
            }
        }
    }
}

/// The hash of a line if it follows the chain, or what is wrong with it.
fn link(text: &[u8], chain: &Chain) -> io::Result<Result<String, String>> {
    let Ok(mut line) = serde_json::from_slice::<Line>(text) else {
        return Ok(Err("it is no record".to_owned()));
    };
    let told = std::mem::take(&mut line.hash);
    if line.previous != chain.head {
        return Ok(Err("it does not follow the record before".to_owned()));
    }
    if line.seq != chain.records + 1 {
        return Ok(Err("it does not have the next number".to_owned()));
    }
    if line.digest()? != told {
        return Ok(Err("its hash is another one".to_owned()));
    }
    Ok(Ok(told))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kept(count: u64) -> (tempfile::TempDir, PathBuf, Audit) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("audit.log");
        let audit = Audit::open(&path).unwrap();
        for txn in 1..=count {
            let what = "Apply".to_owned();
            audit
                .record(Deed { who: "token ci".to_owned(), what, txn: Some(txn), ..Deed::default() })
                .unwrap();
        }
        (folder, path, audit)
    }

    #[test]
    fn a_chain_goes_on_after_a_restart() {
        let (_folder, path, audit) = kept(3);
        let before = audit.verify().unwrap();
        assert_eq!((before.records, &before.broken), (3, &None));
        drop(audit);
        let audit = Audit::open(&path).unwrap();
        audit.record(Deed::default()).unwrap();
        let after = audit.verify().unwrap();
        assert_eq!((after.records, &after.broken), (4, &None));
        assert_ne!(after.head, before.head);
    }

    #[test]
    fn an_edited_a_removed_and_a_missing_record_are_found() {
        type Edit = fn(Vec<&str>) -> Vec<String>;
        let edits: [(&str, Edit, u64); 4] = [
            ("edited", |lines| lines.iter().map(|line| line.replace("\"txn\":2", "\"txn\":9")).collect(), 2),
            (
                "removed",
                |lines| [&lines[..1], &lines[2..]].concat().iter().map(ToString::to_string).collect(),
                2,
            ),
            ("cut off", |lines| lines[..2].iter().map(ToString::to_string).collect(), 3),
            (
                "doubled",
                |lines| [&lines[..], &lines[2..]].concat().iter().map(ToString::to_string).collect(),
                4,
            ),
        ];
        for (name, edit, line) in edits {
            let (_folder, path, audit) = kept(3);
            let text = std::fs::read_to_string(&path).unwrap();
            let edited = edit(text.lines().collect()).join("\n") + "\n";
            std::fs::write(&path, edited).unwrap();
            let broken = audit.verify().unwrap().broken;
            assert_eq!(broken.as_ref().map(|(line, _)| *line), Some(line), "{name}: {broken:?}");
            drop(audit);
            assert_eq!(
                Audit::open(&path).is_err(),
                name != "cut off",
                "{name}: an agent does not go on with it"
            );
        }
    }

    #[test]
    fn what_is_said_at_length_is_cut_and_the_chain_can_be_read_again() {
        let (_folder, path, audit) = kept(1);
        // The letters that take most room when they are written.
        let long = "\u{1}".repeat(2 << 20);
        let [who, role, what, description, plan, ended] = std::array::from_fn(|_| long.clone());
        audit.record(Deed { who, role, what, description, plan, txn: None, ended }).unwrap();
        audit.record(Deed { description: "ä".repeat(LONGEST_TEXT), ..Deed::default() }).unwrap();
        assert_eq!(audit.verify().unwrap().broken, None);
        drop(audit);
        let audit = Audit::open(&path).unwrap();
        assert_eq!(audit.verify().unwrap().records, 3);
        let text = std::fs::read_to_string(&path).unwrap();
        assert!(text.contains("… (2097152 bytes)") && text.contains("… (32768 bytes)"));
    }

    #[test]
    fn what_could_not_be_recorded_comes_before_what_is_recorded_next() {
        let (_folder, path, audit) = kept(1);
        let deed = |what: &str| Deed { what: what.to_owned(), ..Deed::default() };
        let kept = std::mem::replace(&mut audit.tail().file, File::open("/dev/full").unwrap());
        assert!(!audit.record_or_owe(deed("first")) && !audit.record_or_owe(deed("second")));
        assert!(audit.record(deed("refused")).is_err() && !audit.settle());
        audit.tail().file = kept;
        audit.record(deed("third")).unwrap();
        assert!(audit.settle());
        assert_eq!(audit.verify().unwrap(), Chain { records: 4, ..audit.tail().chain.clone() });
        let text = std::fs::read_to_string(&path).unwrap();
        let whats = text.lines().map(|line| serde_json::from_str::<Line>(line).unwrap().deed.what);
        assert_eq!(whats.skip(1).collect::<Vec<_>>(), ["first", "second", "third"]);
    }

    #[test]
    fn a_line_that_a_power_cut_tore_is_cut_off_and_told() {
        let (_folder, path, audit) = kept(2);
        drop(audit);
        let mut file = OpenOptions::new().append(true).open(&path).unwrap();
        file.write_all(b"{\"seq\":3,\"at\"").unwrap();
        let audit = Audit::open(&path).unwrap();
        assert_eq!(audit.verify().unwrap().records, 3);
        assert!(std::fs::read_to_string(&path).unwrap().contains("cut off 13 bytes"));
    }
}
