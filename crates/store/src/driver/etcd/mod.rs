//! The etcd driver: the store of a fleet.
//!
//! Decided here: how the promises of [`Store`] are asked of etcd. `peers` knows the members, fails over and
//! authenticates; `watch` resumes; `translate` knows etcd's words; `version` knows which servers keep which promises;
//! `wire` is the part of its API that is spoken.
//!
//! What etcd limits is refused as [`StoreError::Invalid`]: by default 128 changes in a commit, and one and a half
//! mebibytes.

mod peers;
mod settings;
mod translate;
mod version;
mod watch;
mod wire;

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::{FutureExt, StreamExt, stream};
use tokio::time::Instant;
use tonic::Response;
use tonic::transport::Channel;

pub use settings::{Settings, Tls, User};
pub use version::{Version, Warning};

use crate::item::check_key;
use crate::{
    Answer, Commit, Committed, Compare, Difference, Expected, Found, Identity, Item, Lease, LeaseId, Range,
    Revision, Snapshot, Store, StoreError, Watch,
};
use peers::{LONGEST_MESSAGE, Peers, Repeat, with_token};
use translate::Ended;
use wire::compare::{CompareResult, CompareTarget, TargetUnion};
use wire::kv_client::KvClient;
use wire::lease_client::LeaseClient;
use wire::maintenance_client::MaintenanceClient;
use wire::request_op::Request as Op;
use wire::{ResponseHeader, signed, unsigned};

/// How many items are asked for at once.
const PAGE: usize = 2000;

/// A store in an etcd cluster.
///
/// **Guarantees** reads are linearizable. A commit whose fate nobody knows is [`StoreError::Uncertain`], and is not
/// made again.
#[derive(Clone, Debug)]
pub struct Etcd {
    peers: Arc<Peers>,
}

impl Etcd {
    /// Knows where etcd is; connections are made when they are needed, so a store that is away can be opened too.
    pub fn new(settings: Settings) -> Result<Self, StoreError> {
        Ok(Self { peers: Arc::new(Peers::new(settings)?) })
    }

    /// What the owner of the cluster should know about its members; those that do not answer are left out, unless
    /// none does.
    pub async fn warnings(&self) -> Result<Vec<Warning>, StoreError> {
        let mut warnings = Vec::new();
        let mut failure = None;
        let mut answered = false;
        for peer in self.peers.all() {
            match status_of(&self.peers, peer.channel.clone()).await {
                Ok(said) => {
                    answered = true;
                    warnings.extend(warning(&peer.endpoint, &said));
                }
                Err(error) => failure = Some(error),
            }
        }
        match failure {
            Some(error) if !answered => Err(error),
            Some(_) | None => Ok(warnings),
        }
    }

    async fn ask_range(
        &self,
        message: &wire::RangeRequest,
        asked: Revision,
    ) -> Result<wire::RangeResponse, StoreError> {
        let ended = match range_call(&self.peers, message).await {
            Ok(answer) => return Ok(answer),
            Err(ended) => ended,
        };
        Err(watch::explain(&self.peers, ended, asked).await)
    }

    /// Reads page after page as of one revision, until there is enough. Keys that are not text are nobody's of ours.
    async fn snapshot(&self, range: Range) -> Result<Snapshot, StoreError> {
        range.check()?;
        let limit = range.limit.unwrap_or(usize::MAX);
        let after = range.after.as_ref().filter(|after| **after >= range.prefix);
        let mut message = wire::RangeRequest {
            key: after.map_or_else(|| wire::start_of(&range.prefix), |after| behind(after.as_bytes())),
            range_end: wire::end_of(&range.prefix),
            revision: range.at.map_or(0, wire_revision),
            ..Default::default()
        };
        let mut snapshot = Snapshot::default();
        loop {
            let wanted = (limit - snapshot.items.len()).min(PAGE);
            message.limit = i64::try_from(wanted).expect("a page is small");
            let answer = self.ask_range(&message, range.at.unwrap_or(snapshot.revision)).await?;
            if message.revision == 0 {
                snapshot.revision = ResponseHeader::revision(&answer.header);
                message.revision = wire_revision(snapshot.revision);
            } else if let Some(at) = range.at {
                snapshot.revision = at;
            }
            snapshot.more = answer.more;
            let last = answer.kvs.last().map(|pair| behind(&pair.key));
            snapshot.items.extend(answer.kvs.into_iter().filter_map(wire::KeyValue::into_item));
            match last {
                Some(last) if snapshot.more && snapshot.items.len() < limit => message.key = last,
                Some(_) | None => return Ok(snapshot),
            }
        }
    }

    async fn transact(&self, commit: Commit) -> Result<Committed, StoreError> {
        commit.check()?;
        let message = txn(&commit);
        let repeat = if commit.puts.is_empty() && commit.deletes.is_empty() {
            Repeat::Harmless
        } else {
            Repeat::Never
        };
        let answer = self.peers.call("commit", repeat, |channel, token| {
            let message = message.clone();
            async move { kv(channel).txn(with_token(message, token)).await }
        });
        let answer = match answer.await {
            Ok(answer) => answer,
            Err(Ended::NoSuchLease) => {
                return Err(StoreError::NoSuchLease(commit.lease.unwrap_or(LeaseId(0))));
            }
            Err(ended) => return Err(watch::explain(&self.peers, ended, Revision::ZERO).await),
        };
        if answer.succeeded {
            return Ok(Committed { revision: ResponseHeader::revision(&answer.header) });
        }
        Err(StoreError::Conflict { differences: differences(commit.compare, answer.responses) })
    }

    async fn give_up(&self, before: Revision) -> Result<(), StoreError> {
        if before <= Revision(1) {
            return Ok(());
        }
        let message = wire::CompactionRequest { revision: signed(before.0) };
        let answer = self.peers.call("compact", Repeat::Harmless, |channel, token| async move {
            kv(channel).compact(with_token(message, token)).await
        });
        match answer.await {
            Ok(_) | Err(Ended::Compacted) => Ok(()),
            Err(ended) => Err(watch::explain(&self.peers, ended, before).await),
        }
    }

    async fn ask_lease(&self, ttl: Duration) -> Result<Lease, StoreError> {
        let seconds = ttl.as_secs() + u64::from(ttl.subsec_nanos() > 0);
        if seconds == 0 {
            return Err(StoreError::invalid("lease", "it lasts no time"));
        }
        let message = wire::LeaseGrantRequest { ttl: signed(seconds), id: 0 };
        // One that was granted unknown to us ends by itself.
        let answer = self.peers.call("grant a lease", Repeat::Harmless, |channel, token| async move {
            LeaseClient::new(channel).lease_grant(with_token(message, token)).await
        });
        match answer.await {
            Ok(answer) => Ok(lease(answer.id, answer.ttl)),
            Err(ended) => Err(watch::explain(&self.peers, ended, Revision::ZERO).await),
        }
    }

    async fn renew(&self, id: LeaseId) -> Result<Lease, StoreError> {
        let message = wire::LeaseKeepAliveRequest { id: id.0 as i64 };
        let answer = self.peers.call("keep a lease alive", Repeat::Harmless, |channel, token| async move {
            let request = with_token(stream::iter([message]), token);
            let mut answers = LeaseClient::new(channel).lease_keep_alive(request).await?.into_inner();
            let first = answers.next().await.transpose()?;
            first.map(Response::new).ok_or_else(|| tonic::Status::unavailable("the stream ended"))
        });
        match answer.await {
            Ok(answer) if answer.ttl > 0 => Ok(lease(answer.id, answer.ttl)),
            Ok(_) | Err(Ended::NoSuchLease) => Err(StoreError::NoSuchLease(id)),
            Err(ended) => Err(watch::explain(&self.peers, ended, Revision::ZERO).await),
        }
    }

    async fn end_lease(&self, id: LeaseId) -> Result<Committed, StoreError> {
        let message = wire::LeaseRevokeRequest { id: id.0 as i64 };
        let answer = self.peers.call("revoke a lease", Repeat::Never, |channel, token| async move {
            LeaseClient::new(channel).lease_revoke(with_token(message, token)).await
        });
        match answer.await {
            Ok(answer) => Ok(Committed { revision: ResponseHeader::revision(&answer.header) }),
            Err(Ended::NoSuchLease) => Err(StoreError::NoSuchLease(id)),
            Err(ended) => Err(watch::explain(&self.peers, ended, Revision::ZERO).await),
        }
    }
}

impl Store for Etcd {
    fn identity(&self) -> Answer<'_, Identity> {
        async move {
            let message =
                wire::RangeRequest { key: Bytes::from_static(&[0]), keys_only: true, ..Default::default() };
            let answer = self.ask_range(&message, Revision::ZERO).await?;
            Ok(Identity(answer.header.map_or(0, |header| header.cluster_id.into())))
        }
        .boxed()
    }

    fn get(&self, key: &str) -> Answer<'_, Found> {
        let key = key.to_owned();
        async move {
            check_key(&key)?;
            let message = wire::RangeRequest { key: key.into(), ..Default::default() };
            let answer = self.ask_range(&message, Revision::ZERO).await?;
            let revision = ResponseHeader::revision(&answer.header);
            Ok(Found { revision, item: answer.kvs.into_iter().find_map(wire::KeyValue::into_item) })
        }
        .boxed()
    }

    fn range(&self, range: Range) -> Answer<'_, Snapshot> {
        self.snapshot(range).boxed()
    }

    fn commit(&self, commit: Commit) -> Answer<'_, Committed> {
        self.transact(commit).boxed()
    }

    fn watch(&self, prefix: &str, after: Revision) -> Answer<'_, Watch> {
        watch::start(Arc::clone(&self.peers), prefix.to_owned(), after).boxed()
    }

    fn compact(&self, before: Revision) -> Answer<'_, ()> {
        self.give_up(before).boxed()
    }

    fn grant(&self, ttl: Duration) -> Answer<'_, Lease> {
        self.ask_lease(ttl).boxed()
    }

    fn keep_alive(&self, lease: LeaseId) -> Answer<'_, Lease> {
        self.renew(lease).boxed()
    }

    fn revoke(&self, lease: LeaseId) -> Answer<'_, Committed> {
        self.end_lease(lease).boxed()
    }

    fn remarks(&self) -> Answer<'_, Vec<String>> {
        async move { Ok(self.warnings().await?.iter().map(ToString::to_string).collect()) }.boxed()
    }
}

fn kv(channel: Channel) -> KvClient<Channel> {
    KvClient::new(channel).max_decoding_message_size(LONGEST_MESSAGE)
}

/// The key right behind another.
fn behind(key: &[u8]) -> Bytes {
    Bytes::from([key, &[0]].concat())
}

/// A revision as etcd counts it: its empty store is of revision one, and zero asks for the newest.
fn wire_revision(revision: Revision) -> i64 {
    signed(revision.0.max(1))
}

fn lease(id: i64, seconds: i64) -> Lease {
    Lease { id: LeaseId(id as u64), ttl: Duration::from_secs(unsigned(seconds)) }
}

/// Reads a range, at one member or another.
async fn range_call(peers: &Peers, message: &wire::RangeRequest) -> Result<wire::RangeResponse, Ended> {
    let call = peers.call("read", Repeat::Harmless, |channel, token| {
        let message = message.clone();
        async move { kv(channel).range(with_token(message, token)).await }
    });
    call.await
}

/// What a member says its version is.
async fn status_of(peers: &Peers, channel: Channel) -> Result<String, StoreError> {
    let attempt = "ask etcd for its version";
    let unavailable = |source| StoreError::Unavailable { attempt: attempt.to_owned(), source };
    let deadline = Instant::now() + peers.settings.attempt_timeout;
    let token = peers.token(deadline).await.ok().flatten();
    let mut client = MaintenanceClient::new(channel);
    let asked = tokio::time::timeout_at(deadline, client.status(with_token(wire::StatusRequest {}, token)));
    match asked.await {
        Ok(Ok(answer)) => Ok(answer.into_inner().version),
        Ok(Err(status)) => Err(unavailable(Arc::new(status))),
        Err(elapsed) => Err(unavailable(Arc::new(elapsed))),
    }
}

fn warning(endpoint: &str, said: &str) -> Option<Warning> {
    let endpoint = endpoint.to_owned();
    match Version::parse(said) {
        Some(version) if version.keeps_watch_events() => None,
        Some(version) => Some(Warning::LosesWatchEvents { endpoint, version }),
        None => Some(Warning::UnknownVersion { endpoint, said: said.to_owned() }),
    }
}

/// A commit as etcd takes it. What is compared is read in the same transaction, for whoever has to decide again.
fn txn(commit: &Commit) -> wire::TxnRequest {
    let op = |request| wire::RequestOp { request: Some(request) };
    let lease = commit.lease.map_or(0, |lease| lease.0 as i64);
    let puts = commit.puts.iter().map(|put| {
        let key = Bytes::copy_from_slice(put.key.as_bytes());
        op(Op::RequestPut(wire::PutRequest { key, value: put.value.clone(), lease }))
    });
    let deletes = commit.deletes.iter().map(|key| {
        let key = Bytes::copy_from_slice(key.as_bytes());
        op(Op::RequestDeleteRange(wire::DeleteRangeRequest { key }))
    });
    let reads = commit.compare.iter().map(|compare| {
        let key = Bytes::copy_from_slice(compare.key.as_bytes());
        op(Op::RequestRange(wire::RangeRequest { key, ..Default::default() }))
    });
    wire::TxnRequest {
        compare: commit.compare.iter().flat_map(compare).collect(),
        success: puts.chain(deletes).collect(),
        failure: reads.collect(),
    }
}

/// A comparison as etcd makes it.
fn compare(compare: &Compare) -> Vec<wire::Compare> {
    let key = Bytes::copy_from_slice(compare.key.as_bytes());
    let of = |result: CompareResult, target: CompareTarget, with: TargetUnion| wire::Compare {
        result: result.into(),
        target: target.into(),
        key: key.clone(),
        target_union: Some(with),
    };
    let there = || of(CompareResult::Greater, CompareTarget::Version, TargetUnion::Version(0));
    match &compare.expected {
        Expected::Absent => vec![of(CompareResult::Equal, CompareTarget::Version, TargetUnion::Version(0))],
        Expected::Present => vec![there()],
        Expected::Modified(revision) => {
            let with = TargetUnion::ModRevision(signed(revision.0));
            vec![there(), of(CompareResult::Equal, CompareTarget::Mod, with)]
        }
        Expected::Value(value) => {
            vec![there(), of(CompareResult::Equal, CompareTarget::Value, TargetUnion::Value(value.clone()))]
        }
    }
}

/// What of the comparisons did not hold, by what was read in their place.
fn differences(compare: Vec<Compare>, responses: Vec<wire::ResponseOp>) -> Vec<Difference> {
    let read = responses.into_iter().map(|response| -> Option<Item> {
        match response.response {
            Some(wire::response_op::Response::ResponseRange(range)) => {
                range.kvs.into_iter().find_map(wire::KeyValue::into_item)
            }
            Some(_) | None => None,
        }
    });
    let pairs = compare.into_iter().zip(read);
    let differing = pairs.filter(|(compare, actual)| !compare.expected.holds(actual.as_ref()));
    differing.map(|(Compare { key, expected }, actual)| Difference { key, expected, actual }).collect()
}
