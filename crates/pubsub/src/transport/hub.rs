//! The hub: one distributor, driven by a runtime, and the sessions it serves.
//!
//! Decided here: that the machine's lock is held only while it thinks, never while anything is written; and that each
//! session has a writer of its own, which takes frames as fast as its subscriber does. So nobody waits for anybody. Who
//! writes to a socket is decided in `outlet`; a session inside the process has none (`joined`).

use std::collections::{BTreeSet, HashMap};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::Notify;
use tokio::task::JoinSet;

use crate::change::Commit;
use crate::distributor::{Distributor, Notice, Request, SourceState, Tail};
use crate::message::Message;
use crate::moment::Moment;
use crate::publisher::Delivery;
use crate::session::{Outgoing, SessionId};
use crate::settings::Settings;
use crate::subscriber::SourceUnavailable;
use crate::wire;

use super::Clock;
use super::joined::{Inbox, Joined};
use super::outlet::{Outlet, Rest, Taken, joined};

/// How many bytes are written at a time, by the writer of a session and by whoever commits.
const WRITE: usize = 64 << 10;
const WRITE_AT_ONCE: usize = 8 << 10;

/// To how many sockets whoever commits writes itself: more would hold it up.
const FEW: usize = 64;

/// How long there must have been nothing to write for that. What comes thick and fast is left to the writers, each of which
/// writes what waits for its session together.
const SILENCE: Duration = Duration::from_micros(100);

/// Who shall write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pace {
    /// Whoever commits.
    Calm,
    /// The writer of each socket.
    Busy,
}

impl Pace {
    /// The pace for so many sockets.
    pub(crate) fn of(self, sockets: usize) -> Self {
        if sockets <= FEW { self } else { Self::Busy }
    }
}

/// How the writer of a session learns that there is something to take.
#[derive(Clone)]
pub(crate) enum Wake {
    Notify(Arc<Notify>),
    Outlet(Arc<Outlet>),
    Inbox(Arc<Inbox>),
}

impl Wake {
    fn wake(&self) {
        match self {
            Self::Notify(wake) => wake.notify_one(),
            Self::Outlet(outlet) => outlet.wake(),
            Self::Inbox(inbox) => inbox.wake(),
        }
    }
}

/// Carries what is said to everybody.
type Crier = Arc<dyn Fn(&Message, Pace) + Send + Sync>;

/// A distributor and its sessions. It lives until `abort`, or as long as its runtime.
///
/// The source is driven by the owner: [`Hub::request`] says what to ask, `source_read` and `committed` bring answers, and
/// [`Hub::with`] reaches the distributor for everything else.
pub struct Hub {
    core: Mutex<Distributor>,
    clock: Clock,
    /// How long a subscriber may take nothing.
    patience: Duration,
    sessions: Mutex<HashMap<SessionId, Wake>>,
    next_session: AtomicU64,
    /// When anything was written or said last.
    spoke: AtomicU64,
    requested: Notify,
    noticed: Notify,
    rescheduled: Notify,
    /// Of a hundred messages that are said to everybody, this many are lost; and what decides which.
    lose_percent: u8,
    chance: AtomicU64,
    lost: AtomicU64,
    /// Who carries what is said to everybody.
    crier: Mutex<Option<Crier>>,
    tasks: Mutex<JoinSet<()>>,
}

impl Hub {
    /// Starts a hub, which begins by asking for a read of its source. **Assumes** a running runtime.
    pub fn start(settings: Settings, delivery: Delivery, tail: Tail, instance: u128, seed: u64) -> Arc<Self> {
        let (clock, patience, lose_percent) = (Clock::start(), settings.write_timeout, settings.lose_percent);
        let core = Distributor::new(settings, delivery, tail, instance, seed, clock.now());
        let hub = Arc::new(Self {
            core: Mutex::new(core),
            clock,
            patience,
            sessions: Mutex::default(),
            next_session: AtomicU64::new(1),
            spoke: AtomicU64::new(0),
            requested: Notify::new(),
            noticed: Notify::new(),
            rescheduled: Notify::new(),
            lose_percent,
            chance: AtomicU64::new(seed),
            lost: AtomicU64::new(0),
            crier: Mutex::default(),
            tasks: Mutex::default(),
        });
        let timer = Arc::downgrade(&hub);
        hub.spawn(async move {
            loop {
                let Some(hub) = timer.upgrade() else { return };
                let due = lock(&hub.core).deadline();
                let wait = due.map_or(Duration::from_secs(1), |due| hub.clock.until(due));
                // Commits move no deadline closer than a millisecond: nobody is late by more.
                let wait = wait.max(Duration::from_millis(1));
                tokio::select! {
                    () = tokio::time::sleep(wait) => {}
                    () = hub.rescheduled.notified() => continue,
                }
                hub.with(Distributor::advance);
            }
        });
        hub
    }

    /// Runs a task that ends with the hub.
    pub(crate) fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        let mut tasks = lock(&self.tasks);
        while tasks.try_join_next().is_some() {}
        tasks.spawn(task);
    }

    /// Ends everything at once, without a word to anybody: what a crash does.
    pub fn abort(&self) {
        lock(&self.tasks).abort_all();
        *lock(&self.crier) = None;
        let sessions: Vec<SessionId> = lock(&self.sessions).keys().copied().collect();
        sessions.into_iter().for_each(|id| self.close(id));
    }

    /// Tells every subscriber where else to go, and lets them.
    pub fn shut_down(&self) {
        self.with(|core, now| core.publisher().shut_down(now));
    }

    /// Lets the machine think, then wakes whoever has something to do.
    pub fn with<T>(&self, think: impl FnOnce(&mut Distributor, Moment) -> T) -> T {
        let now = self.clock.now();
        let (thought, wakes, said, (is_requested, is_noticed)) = {
            let mut core = lock(&self.core);
            let due = core.deadline();
            let thought = think(&mut core, now);
            if core.deadline().is_some_and(|next| due.is_none_or(|due| next < due)) {
                self.rescheduled.notify_one();
            }
            let is_waited_for = core.is_waited_for();
            let publisher = core.publisher();
            let said: Vec<Message> = std::iter::from_fn(|| publisher.broadcast()).collect();
            (thought, publisher.wakes(), said, is_waited_for)
        };
        if !(wakes.is_empty() && said.is_empty()) {
            let pace = self.pace(now);
            self.wake(&wakes, pace);
            self.say(&said, pace);
            self.spoke.store(nanos(self.clock.now()), Ordering::Relaxed);
        }
        // Whoever serves the source is not woken for every commit.
        if is_requested {
            self.requested.notify_one();
        }
        if is_noticed {
            self.noticed.notify_one();
        }
        thought
    }

    fn pace(&self, now: Moment) -> Pace {
        let spoke = self.spoke.load(Ordering::Relaxed);
        let is_calm = nanos(now).saturating_sub(spoke) >= nanos(Moment(SILENCE)) || spoke == 0;
        if is_calm { Pace::Calm } else { Pace::Busy }
    }

    /// Brings sessions what there is for them.
    fn wake(&self, ids: &BTreeSet<SessionId>, pace: Pace) {
        if ids.is_empty() {
            return;
        }
        let pace = pace.of(ids.len());
        let mut prompted = Vec::new();
        {
            let sessions = lock(&self.sessions);
            for id in ids {
                match sessions.get(id) {
                    Some(wake @ (Wake::Outlet(_) | Wake::Inbox(_))) if pace == Pace::Calm => {
                        prompted.push((*id, wake.clone()));
                    }
                    Some(wake) => wake.wake(),
                    None => {}
                }
            }
        }
        for (id, wake) in prompted {
            match wake {
                Wake::Outlet(outlet) => outlet.prompt(|| self.taken(id, WRITE_AT_ONCE)),
                Wake::Inbox(inbox) => inbox.prompt(|| self.take_outgoing(id, WRITE_AT_ONCE)),
                Wake::Notify(wake) => wake.notify_one(),
            }
        }
    }

    /// Says something to everybody.
    fn say(&self, messages: &[Message], pace: Pace) {
        if messages.is_empty() {
            return;
        }
        let Some(crier) = lock(&self.crier).clone() else { return };
        messages.iter().filter(|_| !self.is_lost()).for_each(|message| crier(message, pace));
    }

    /// Whether the next message that is said to everybody is lost, for trials.
    fn is_lost(&self) -> bool {
        if self.lose_percent == 0 {
            return false;
        }
        // The finaliser of a splitting generator over a counter: good enough to lose messages by.
        let mut number = self.chance.fetch_add(0x9e37_79b9_7f4a_7c15, Ordering::Relaxed);
        number = (number ^ (number >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        number = (number ^ (number >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        let is_lost = (number >> 32) % 100 < u64::from(self.lose_percent);
        self.lost.fetch_add(u64::from(is_lost), Ordering::Relaxed);
        is_lost
    }

    /// How many messages for everybody were lost on purpose.
    pub fn lost(&self) -> u64 {
        self.lost.load(Ordering::Relaxed)
    }

    /// What to ask the source next; waits until there is something.
    pub async fn request(&self) -> Request {
        loop {
            if let Some(request) = lock(&self.core).request() {
                return request;
            }
            self.requested.notified().await;
        }
    }

    /// What was noticed about the source next; waits until there is something.
    pub async fn notice(&self) -> Notice {
        loop {
            if let Some(notice) = lock(&self.core).notice() {
                return notice;
            }
            self.noticed.notified().await;
        }
    }

    /// The source was read, or could not be.
    pub fn source_read(&self, read: u64, answer: Result<SourceState, SourceUnavailable>) {
        self.with(|core, now| core.source_read(read, answer, now));
    }

    /// The source tells a commit.
    pub fn committed(&self, commit: Commit) {
        self.with(|core, now| core.committed(commit, now));
    }

    /// Gives what is said to everybody to this one, from now on, and to nobody else. **Assumes** that it does not wait.
    pub(crate) fn cried_by(&self, crier: impl Fn(&Message, Pace) + Send + Sync + 'static) {
        *lock(&self.crier) = Some(Arc::new(crier));
    }

    /// A session whose writer waits until it is notified.
    pub(crate) fn open(&self) -> (SessionId, Arc<Notify>) {
        let wake = Arc::new(Notify::new());
        (self.open_with(Wake::Notify(Arc::clone(&wake))), wake)
    }

    fn open_with(&self, wake: Wake) -> SessionId {
        let id = SessionId(self.next_session.fetch_add(1, Ordering::Relaxed));
        lock(&self.sessions).insert(id, wake);
        self.with(|core, now| core.publisher().connected(id, now));
        id
    }

    pub(crate) fn close(&self, id: SessionId) {
        let wake = lock(&self.sessions).remove(&id);
        self.with(|core, _| core.publisher().disconnected(id));
        // Whoever waits for something to carry learns that there is nothing more.
        wake.iter().for_each(Wake::wake);
    }

    pub(crate) fn receive(&self, id: SessionId, message: Message) {
        self.with(|core, now| core.publisher().receive(id, message, now));
    }

    /// Frames for a session, up to a size; and whether that was the end.
    pub(crate) fn take(&self, id: SessionId, room: usize) -> (Vec<Bytes>, bool) {
        let (frames, rest) = self.take_as(id, room, |outgoing| outgoing.frame().clone());
        (frames, rest == Rest::End)
    }

    /// The same inside this process, where a slice is taken as it is; and what there is besides.
    pub(crate) fn take_outgoing(&self, id: SessionId, room: usize) -> (Vec<Outgoing>, Rest) {
        self.take_as(id, room, |outgoing| outgoing)
    }

    fn take_as<T>(&self, id: SessionId, room: usize, each: impl Fn(Outgoing) -> T) -> (Vec<T>, Rest) {
        let now = self.clock.now();
        let mut core = lock(&self.core);
        let publisher = core.publisher();
        let (mut taken, mut size) = (Vec::new(), 0);
        while size < room {
            let next = publisher.take_outgoing(id, now);
            let Some(outgoing) = next else {
                return (taken, if publisher.is_closing(id) { Rest::End } else { Rest::Nothing });
            };
            size += outgoing.frame().len();
            taken.push(each(outgoing));
        }
        (taken, Rest::More)
    }

    /// The same as one batch.
    fn taken(&self, id: SessionId, room: usize) -> Taken {
        let (frames, rest) = self.take_as(id, room, |outgoing| outgoing.frame().clone());
        Taken { batch: joined(frames), rest }
    }

    /// How long a subscriber may take nothing.
    pub(crate) fn patience(&self) -> Duration {
        self.patience
    }

    /// A session inside this process.
    pub(crate) fn join(self: &Arc<Self>) -> Joined {
        let inbox = Arc::<Inbox>::default();
        let id = self.open_with(Wake::Inbox(Arc::clone(&inbox)));
        Joined::new(Arc::clone(self), id, inbox)
    }

    /// Serves one session over a socket until that ends or the distributor ends it.
    pub(crate) async fn serve_tcp(self: Arc<Self>, stream: TcpStream) {
        let (reader, writer) = stream.into_split();
        let outlet = Arc::new(Outlet::new(writer));
        let id = self.open_with(Wake::Outlet(Arc::clone(&outlet)));
        tokio::select! {
            // Of a subscriber that has silently gone, nothing comes back: it is told by time alone.
            _ = outlet.drain(self.patience, || self.taken(id, WRITE)) => {}
            () = self.hear(id, reader) => {}
        }
        self.close(id);
    }

    /// Serves one session over any stream until that ends or the distributor ends it.
    pub(crate) async fn serve<S: AsyncRead + AsyncWrite + Send + Unpin>(self: Arc<Self>, stream: S) {
        let (reader, mut writer) = tokio::io::split(stream);
        let (id, wake) = self.open();
        let write = async {
            loop {
                // A session that waits holds no memory for what it may have to write.
                let Taken { mut batch, rest } = self.taken(id, WRITE);
                let is_idle = batch.is_empty();
                while !batch.is_empty() {
                    let written = tokio::time::timeout(self.patience, writer.write_buf(&mut batch)).await;
                    let Ok(Ok(1..)) = written else { return };
                }
                if rest == Rest::End {
                    let _ = tokio::time::timeout(self.patience, writer.shutdown()).await;
                    return;
                }
                if is_idle {
                    wake.notified().await;
                } else if !matches!(tokio::time::timeout(self.patience, writer.flush()).await, Ok(Ok(()))) {
                    return;
                }
            }
        };
        tokio::select! {
            () = write => {}
            () = self.hear(id, reader) => {}
        }
        self.close(id);
    }

    /// Hears what a subscriber says until its stream ends.
    async fn hear(&self, id: SessionId, mut reader: impl AsyncRead + Unpin) {
        let mut buffer = BytesMut::with_capacity(1024);
        while let Ok(1..) = reader.read_buf(&mut buffer).await {
            loop {
                match wire::frame_length(&buffer) {
                    Ok(Some(length)) if buffer.len() >= length => {
                        // A session that talks nonsense is ended; others do not notice.
                        match wire::decode(&buffer.split_to(length)) {
                            Ok(Some(message)) => self.receive(id, message),
                            Ok(None) => {}
                            Err(_) => return,
                        }
                    }
                    Ok(_) => break,
                    Err(_) => return,
                }
            }
        }
    }
}

fn nanos(moment: Moment) -> u64 {
    u64::try_from(moment.0.as_nanos()).unwrap_or(u64::MAX)
}

/// A lock that a panic elsewhere does not take away.
pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
