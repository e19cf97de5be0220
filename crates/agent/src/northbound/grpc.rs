//! The service: one method for each question of the wire, in the order of its file.

use kilter_api::v1::agent_server::Agent;
use kilter_api::v1::{self, Problem, Reason};
use kilter_events::AskedResync;
use kilter_scheduler::{Changes, Cursor};
use tokio::sync::mpsc::channel;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Request, Response, Status};

use super::access::{self, Purpose};
use super::audit::Witness;
use super::change::{self, ended, relay, span};
use super::door::Caller;
use super::{Northbound, declared, look};
use crate::desk::View;

/// How many changes wait for a slow watcher before the agent keeps them in its history only.
const WATCHED: usize = 4;

type Answer<T> = Result<Response<T>, Status>;

fn answer<T>(answer: Result<T, Problem>) -> Answer<T> {
    answer.map(Response::new).map_err(Problem::into_status)
}

impl Northbound {
    /// Looks at the agent, if whoever asks may.
    async fn look<R, T: Send + 'static>(
        &self,
        request: Request<R>,
        look: impl FnOnce(&View<'_>, R) -> Result<T, Problem> + Send + 'static,
    ) -> Answer<T>
    where
        R: Send + 'static,
    {
        access::check(&request, Purpose::Look).map_err(|status| *status)?;
        let request = request.into_inner();
        let looked = self.desk.inquire(move |view| look(view, request)).await;
        answer(looked.map_err(|gone| ended(&gone)).and_then(|looked| looked))
    }

    /// Lets a request pass that changes something; who asks is part of the record, and of the audit records.
    async fn pass<R>(&self, what: &str, request: Request<R>) -> Result<(R, Witness), Status> {
        self.pass_to(what, request, Purpose::Change).await
    }

    /// Lets a request pass that is for this purpose.
    async fn pass_to<R>(
        &self,
        what: &str,
        request: Request<R>,
        purpose: Purpose,
    ) -> Result<(R, Witness), Status> {
        let caller = access::check(&request, purpose).map_err(|status| *status)?;
        let witness = self.witness(&caller, what).await?;
        Ok((request.into_inner(), witness))
    }

    /// Lets a request pass about a change that waits: on a full disk, too, somebody must be able to keep it or to take it
    /// back. It is said, and recorded as soon as there is room; whether it is durable is for the store to say.
    async fn pass_always<R>(&self, what: &str, request: Request<R>) -> Result<(R, Witness), Status> {
        let caller = access::check(&request, Purpose::Change).map_err(|status| *status)?;
        let witness = Witness::begin_owing(self.audit.clone(), &caller, what).await;
        Ok((request.into_inner(), witness))
    }

    /// Records what somebody asks before anything is done about it.
    pub(super) async fn witness(&self, caller: &Caller, what: &str) -> Result<Witness, Status> {
        let witness = Witness::begin(self.audit.clone(), caller, what).await;
        witness.map_err(|error| Problem::of(Reason::Refused, &error).into_status())
    }

    /// Where a watcher goes on; one that comes from another run begins anew.
    fn cursor(&self, text: &str) -> Option<Cursor> {
        let (instance, seq) = text.rsplit_once(':')?;
        let seq = seq.parse().ok()?;
        (instance == &*self.instance).then(|| Cursor::after(seq))
    }
}

#[tonic::async_trait]
impl Agent for Northbound {
    async fn plan(&self, request: Request<v1::PlanRequest>) -> Answer<v1::PlanReply> {
        access::check(&request, Purpose::Look).map_err(|status| *status)?;
        let plan = self.plan_of(request.get_ref()).await;
        answer(plan.map(|plan| v1::PlanReply { plan: Some(plan) }))
    }

    type ApplyStream = change::Stream;

    async fn apply(&self, request: Request<v1::ApplyRequest>) -> Answer<Self::ApplyStream> {
        let (request, witness) = self.pass("Apply", request).await?;
        answer(self.change(request, witness).await)
    }

    async fn list_items(&self, request: Request<v1::ListItemsRequest>) -> Answer<v1::ListItemsReply> {
        access::check(&request, Purpose::Look).map_err(|status| *status)?;
        answer(self.items(request.into_inner()).await)
    }

    async fn list_statuses(
        &self,
        request: Request<v1::ListStatusesRequest>,
    ) -> Answer<v1::ListStatusesReply> {
        access::check(&request, Purpose::Look).map_err(|status| *status)?;
        answer(self.statuses(request.into_inner()).await)
    }

    type WatchStatusesStream = ReceiverStream<Result<v1::StatusesChanged, Status>>;

    async fn watch_statuses(
        &self,
        request: Request<v1::WatchStatusesRequest>,
    ) -> Answer<Self::WatchStatusesStream> {
        access::check(&request, Purpose::Look).map_err(|status| *status)?;
        let v1::WatchStatusesRequest { cursor, prefix } = request.into_inner();
        let mut watch = self.desk.watch(self.cursor(&cursor));
        let (desk, instance, northbound) = (self.desk.clone(), self.instance.clone(), self.clone());
        let (sender, receiver) = channel(WATCHED);
        tokio::spawn(async move {
            // What a slow watcher has not taken is asked again of the history: nothing is kept for it here.
            while let Ok(permit) = sender.reserve().await {
                let next = tokio::select! {
                    next = watch.next() => next,
                    () = northbound.closing() => return,
                };
                let Ok(changes) = next else { return };
                let (snapshot, statuses) = match changes {
                    Changes::Snapshot(statuses) => (true, statuses),
                    Changes::Changed(statuses) => (false, statuses),
                };
                let cursor = watch.cursor().map(|cursor| format!("{instance}:{}", cursor.seq()));
                let mut told = Vec::new();
                for some in statuses.chunks(look::FEW) {
                    let (some, prefix) = (some.to_vec(), prefix.clone());
                    let some = desk.inquire(move |view| look::changed(view, &some, &prefix)).await;
                    let Ok(some) = some else { return };
                    told.extend(some);
                }
                let statuses = told;
                if snapshot || !statuses.is_empty() {
                    let cursor = cursor.unwrap_or_default();
                    permit.send(Ok(v1::StatusesChanged { snapshot, statuses, cursor }));
                }
            }
        });
        Ok(Response::new(ReceiverStream::new(receiver)))
    }

    async fn explain(&self, request: Request<v1::ExplainRequest>) -> Answer<v1::Explanation> {
        access::check(&request, Purpose::Look).map_err(|status| *status)?;
        let key = request.into_inner().key;
        match self.explained(key.clone()).await {
            Ok(Some(explanation)) => answer(Ok(explanation)),
            Ok(None) => answer(Err(self.unknown(&key).await)),
            Err(problem) => answer(Err(problem)),
        }
    }

    async fn notify(&self, request: Request<v1::NotifyRequest>) -> Answer<v1::NotifyReply> {
        let (request, witness) = self.pass("Notify", request).await?;
        let told = match declared::observations(&request.observations) {
            Ok(seen) => self.desk.notify(seen).await.map_err(|error| super::convert::refusal(&error)),
            Err(problem) => Err(problem),
        };
        answer(witness.seen(told.map(|()| v1::NotifyReply {})).await)
    }

    type ResyncStream = change::Stream;

    async fn resync(&self, request: Request<v1::ResyncRequest>) -> Answer<Self::ResyncStream> {
        let (request, witness) = self.pass("Resync", request).await?;
        answer(self.resynced(&request, witness).await)
    }

    async fn list_transactions(
        &self,
        request: Request<v1::ListTransactionsRequest>,
    ) -> Answer<v1::ListTransactionsReply> {
        access::check(&request, Purpose::Look).map_err(|status| *status)?;
        answer(self.transactions(request.into_inner()).await)
    }

    async fn get_transaction(&self, request: Request<v1::GetTransactionRequest>) -> Answer<v1::Transaction> {
        access::check(&request, Purpose::Look).map_err(|status| *status)?;
        answer(self.transaction(request.into_inner().seq).await)
    }

    async fn timeline(&self, request: Request<v1::TimelineRequest>) -> Answer<v1::TimelineReply> {
        access::check(&request, Purpose::Look).map_err(|status| *status)?;
        answer(self.timeline_page(request.into_inner()).await)
    }

    async fn list_events(&self, request: Request<v1::ListEventsRequest>) -> Answer<v1::ListEventsReply> {
        access::check(&request, Purpose::Look).map_err(|status| *status)?;
        answer(self.events(request.into_inner()).await)
    }

    async fn get_graph(&self, request: Request<v1::GetGraphRequest>) -> Answer<v1::Graph> {
        access::check(&request, Purpose::Look).map_err(|status| *status)?;
        answer(self.graph(request.into_inner()).await)
    }

    async fn export(&self, request: Request<v1::ExportRequest>) -> Answer<v1::ExportReply> {
        access::check(&request, Purpose::Look).map_err(|status| *status)?;
        answer(self.document(request.into_inner()).await)
    }

    async fn list_kinds(&self, request: Request<v1::ListKindsRequest>) -> Answer<v1::ListKindsReply> {
        let remotes = self.remotes.clone();
        self.look(request, move |_, _| Ok(look::kinds(&remotes))).await
    }

    async fn get_confirmation(
        &self,
        request: Request<v1::GetConfirmationRequest>,
    ) -> Answer<v1::GetConfirmationReply> {
        access::check(&request, Purpose::Look).map_err(|status| *status)?;
        answer(self.waiting().await)
    }

    async fn confirm(&self, request: Request<v1::ConfirmRequest>) -> Answer<v1::GetConfirmationReply> {
        let (request, witness) = self.pass_always("Confirm", request).await?;
        answer(witness.seen(self.keep(&request.id).await).await)
    }

    async fn extend_confirmation(
        &self,
        request: Request<v1::ExtendConfirmationRequest>,
    ) -> Answer<v1::GetConfirmationReply> {
        let (request, witness) = self.pass_always("ExtendConfirmation", request).await?;
        answer(witness.seen(self.extend(&request).await).await)
    }

    async fn cancel_confirmation(
        &self,
        request: Request<v1::CancelConfirmationRequest>,
    ) -> Answer<v1::Ended> {
        let (request, mut witness) = self.pass_always("CancelConfirmation", request).await?;
        let taken_back = self.take_back(&request.id).await;
        match &taken_back {
            Ok(ended) => witness.end_with(ended.transaction.as_ref()).await,
            Err(problem) => witness.end(None, &problem.message).await,
        }
        answer(taken_back)
    }

    async fn list_sources(&self, request: Request<v1::ListSourcesRequest>) -> Answer<v1::ListSourcesReply> {
        self.look(request, |view, _| Ok(look::sources(view))).await
    }

    async fn diff(&self, request: Request<v1::DiffRequest>) -> Answer<v1::DiffReply> {
        access::check(&request, Purpose::Look).map_err(|status| *status)?;
        answer(self.differences(request.into_inner()).await)
    }

    async fn wait(&self, request: Request<v1::WaitRequest>) -> Answer<v1::WaitReply> {
        access::check(&request, Purpose::Look).map_err(|status| *status)?;
        let timeout = span(request.get_ref().timeout.as_ref()).map_err(Problem::into_status)?;
        answer(self.settle(timeout).await)
    }

    async fn set_paused(&self, request: Request<v1::SetPausedRequest>) -> Answer<v1::SetPausedReply> {
        let (v1::SetPausedRequest { prefix, paused }, witness) = self.pass("SetPaused", request).await?;
        let told = if paused { self.desk.pause(prefix).await } else { self.desk.resume(prefix).await };
        let paused = match told {
            Ok(()) => self.desk.inquire(|view| view.ledger.paused.clone()).await,
            Err(gone) => Err(gone),
        };
        let paused = paused.map(|paused| v1::SetPausedReply { paused }).map_err(|gone| ended(&gone));
        answer(witness.seen(paused).await)
    }

    async fn get_recording(
        &self,
        request: Request<v1::GetRecordingRequest>,
    ) -> Answer<v1::GetRecordingReply> {
        access::check(&request, Purpose::Look).map_err(|status| *status)?;
        answer(self.recording().await)
    }

    async fn begin_recording(
        &self,
        request: Request<v1::BeginRecordingRequest>,
    ) -> Answer<v1::GetRecordingReply> {
        let (request, witness) = self.pass_to("BeginRecording", request, Purpose::Record).await?;
        answer(witness.seen(self.record(request).await).await)
    }

    async fn end_recording(
        &self,
        request: Request<v1::EndRecordingRequest>,
    ) -> Answer<v1::GetRecordingReply> {
        let (_, witness) = self.pass_to("EndRecording", request, Purpose::Record).await?;
        answer(witness.seen(self.end_recording_of_run().await).await)
    }

    async fn get_health(&self, request: Request<v1::GetHealthRequest>) -> Answer<v1::Health> {
        let (instance, start) = (self.instance.to_string(), self.start);
        self.look(request, move |view, _| {
            Ok(v1::Health { instance, start: Some(start), ..look::health(view) })
        })
        .await
    }
}

impl Northbound {
    /// Recomputes and re-reads, and tells how it goes.
    async fn resynced(
        &self,
        request: &v1::ResyncRequest,
        witness: Witness,
    ) -> Result<change::Stream, Problem> {
        let scope = match request.scope() {
            v1::Scope::Upstream => kilter_events::Scope::Upstream,
            v1::Scope::Downstream => kilter_events::Scope::Downstream,
            v1::Scope::Full | v1::Scope::Unspecified => kilter_events::Scope::Full,
        };
        let asked = AskedResync {
            scope,
            prune: request.prune,
            retry: request.retry,
            description: format!("asked for by {}", witness.who()),
        };
        let changing = self.desk.resync(asked).await;
        Ok(relay(self, changing, Vec::new(), None, witness))
    }
}
