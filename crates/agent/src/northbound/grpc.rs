//! The service: one method for each question of the wire, in the order of its file.

use std::time::Duration;

use kilter_api::v1::agent_server::Agent;
use kilter_api::v1::{self, Problem, Reason};
use kilter_events::AskedResync;
use kilter_scheduler::{Changes, Cursor};
use tokio::sync::mpsc::channel;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Request, Response, Status};

use super::access::Purpose;
use super::change::{self, ended, relay, span};
use super::{Northbound, declared, explain, look};
use crate::desk::{SettleError, View};

/// How many changes wait for a slow watcher before the agent keeps them in its history only.
const WATCHED: usize = 4;

/// As long as anybody may wait.
const PATIENCE: Duration = Duration::from_secs(24 * 3600);

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
        self.access.check(&request, Purpose::Look).map_err(|status| *status)?;
        let request = request.into_inner();
        let looked = self.desk.inquire(move |view| look(view, request)).await;
        answer(looked.map_err(|gone| ended(&gone)).and_then(|looked| looked))
    }

    /// Lets a request pass that changes something; who asks is part of the record.
    fn pass<R>(&self, request: Request<R>) -> Result<(R, String), Status> {
        let who = self.access.check(&request, Purpose::Change).map_err(|status| *status)?;
        Ok((request.into_inner(), who))
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
        self.access.check(&request, Purpose::Look).map_err(|status| *status)?;
        let plan = self.plan_of(request.get_ref()).await;
        answer(plan.map(|plan| v1::PlanReply { plan: Some(plan) }))
    }

    type ApplyStream = change::Stream;

    async fn apply(&self, request: Request<v1::ApplyRequest>) -> Answer<Self::ApplyStream> {
        let (request, who) = self.pass(request)?;
        answer(self.change(request, who).await)
    }

    async fn list_items(&self, request: Request<v1::ListItemsRequest>) -> Answer<v1::ListItemsReply> {
        self.look(request, |view, request| Ok(look::items(view, &request))).await
    }

    async fn list_statuses(
        &self,
        request: Request<v1::ListStatusesRequest>,
    ) -> Answer<v1::ListStatusesReply> {
        self.look(request, |view, request| look::statuses(view, &request)).await
    }

    type WatchStatusesStream = ReceiverStream<Result<v1::StatusesChanged, Status>>;

    async fn watch_statuses(
        &self,
        request: Request<v1::WatchStatusesRequest>,
    ) -> Answer<Self::WatchStatusesStream> {
        self.access.check(&request, Purpose::Look).map_err(|status| *status)?;
        let v1::WatchStatusesRequest { cursor, prefix } = request.into_inner();
        let mut watch = self.desk.watch(self.cursor(&cursor));
        let (desk, instance) = (self.desk.clone(), self.instance.clone());
        let (sender, receiver) = channel(WATCHED);
        tokio::spawn(async move {
            // What a slow watcher has not taken is asked again of the history: nothing is kept for it here.
            while let Ok(permit) = sender.reserve().await {
                let Ok(changes) = watch.next().await else { return };
                let (snapshot, statuses) = match changes {
                    Changes::Snapshot(statuses) => (true, statuses),
                    Changes::Changed(statuses) => (false, statuses),
                };
                let cursor = watch.cursor().map(|cursor| format!("{instance}:{}", cursor.seq()));
                let prefix = prefix.clone();
                let told = desk.inquire(move |view| look::changed(view, &statuses, &prefix)).await;
                let Ok(statuses) = told else { return };
                if snapshot || !statuses.is_empty() {
                    let cursor = cursor.unwrap_or_default();
                    permit.send(Ok(v1::StatusesChanged { snapshot, statuses, cursor }));
                }
            }
        });
        Ok(Response::new(ReceiverStream::new(receiver)))
    }

    async fn explain(&self, request: Request<v1::ExplainRequest>) -> Answer<v1::Explanation> {
        self.look(request, |view, request| explain::explain(view, &request.key)).await
    }

    async fn notify(&self, request: Request<v1::NotifyRequest>) -> Answer<v1::NotifyReply> {
        let (request, _) = self.pass(request)?;
        let seen = declared::observations(&request.observations).map_err(Problem::into_status)?;
        let told = self.desk.notify(seen).await.map_err(|error| super::convert::refusal(&error));
        answer(told.map(|()| v1::NotifyReply {}))
    }

    type ResyncStream = change::Stream;

    async fn resync(&self, request: Request<v1::ResyncRequest>) -> Answer<Self::ResyncStream> {
        let (request, who) = self.pass(request)?;
        answer(self.resynced(&request, who).await)
    }

    async fn list_transactions(
        &self,
        request: Request<v1::ListTransactionsRequest>,
    ) -> Answer<v1::ListTransactionsReply> {
        self.access.check(&request, Purpose::Look).map_err(|status| *status)?;
        answer(self.transactions(request.into_inner()).await)
    }

    async fn get_transaction(&self, request: Request<v1::GetTransactionRequest>) -> Answer<v1::Transaction> {
        self.access.check(&request, Purpose::Look).map_err(|status| *status)?;
        answer(self.transaction(request.into_inner().seq).await)
    }

    async fn timeline(&self, request: Request<v1::TimelineRequest>) -> Answer<v1::TimelineReply> {
        self.access.check(&request, Purpose::Look).map_err(|status| *status)?;
        answer(self.timeline_of(request.into_inner().key).await)
    }

    async fn list_events(&self, request: Request<v1::ListEventsRequest>) -> Answer<v1::ListEventsReply> {
        self.access.check(&request, Purpose::Look).map_err(|status| *status)?;
        answer(self.events(request.into_inner()).await)
    }

    async fn get_graph(&self, request: Request<v1::GetGraphRequest>) -> Answer<v1::Graph> {
        self.access.check(&request, Purpose::Look).map_err(|status| *status)?;
        answer(self.graph(request.into_inner()).await)
    }

    async fn export(&self, request: Request<v1::ExportRequest>) -> Answer<v1::ExportReply> {
        self.look(request, |view, request| Ok(look::export(view, &request))).await
    }

    async fn list_kinds(&self, request: Request<v1::ListKindsRequest>) -> Answer<v1::ListKindsReply> {
        self.look(request, |_, _| Ok(look::kinds())).await
    }

    async fn get_confirmation(
        &self,
        request: Request<v1::GetConfirmationRequest>,
    ) -> Answer<v1::GetConfirmationReply> {
        self.access.check(&request, Purpose::Look).map_err(|status| *status)?;
        answer(self.waiting().await)
    }

    async fn confirm(&self, request: Request<v1::ConfirmRequest>) -> Answer<v1::GetConfirmationReply> {
        let (request, _) = self.pass(request)?;
        answer(self.keep(&request.id).await)
    }

    async fn extend_confirmation(
        &self,
        request: Request<v1::ExtendConfirmationRequest>,
    ) -> Answer<v1::GetConfirmationReply> {
        let (request, _) = self.pass(request)?;
        answer(self.extend(&request).await)
    }

    async fn cancel_confirmation(
        &self,
        request: Request<v1::CancelConfirmationRequest>,
    ) -> Answer<v1::Ended> {
        let (request, _) = self.pass(request)?;
        answer(self.take_back(&request.id).await)
    }

    async fn list_sources(&self, request: Request<v1::ListSourcesRequest>) -> Answer<v1::ListSourcesReply> {
        self.look(request, |view, _| Ok(look::sources(view))).await
    }

    async fn diff(&self, request: Request<v1::DiffRequest>) -> Answer<v1::DiffReply> {
        self.access.check(&request, Purpose::Look).map_err(|status| *status)?;
        answer(self.differences(request.into_inner()).await)
    }

    async fn wait(&self, request: Request<v1::WaitRequest>) -> Answer<v1::WaitReply> {
        self.access.check(&request, Purpose::Look).map_err(|status| *status)?;
        let timeout = span(request.get_ref().timeout.as_ref()).map_err(Problem::into_status)?;
        let settled = match self.desk.settled(timeout.min(PATIENCE)).await {
            Ok(()) => true,
            Err(SettleError::Late { .. }) => false,
            Err(error @ SettleError::Gone) => return answer(Err(Problem::of(Reason::Unavailable, &error))),
        };
        let unsettled = self.desk.inquire(look::unsettled).await.map_err(|gone| ended(&gone));
        answer(unsettled.map(|unsettled| v1::WaitReply { settled, unsettled }))
    }

    async fn set_paused(&self, request: Request<v1::SetPausedRequest>) -> Answer<v1::SetPausedReply> {
        let (v1::SetPausedRequest { prefix, paused }, _) = self.pass(request)?;
        let told = if paused { self.desk.pause(prefix).await } else { self.desk.resume(prefix).await };
        let paused = match told {
            Ok(()) => self.desk.inquire(|view| view.ledger.paused.clone()).await,
            Err(gone) => Err(gone),
        };
        answer(paused.map(|paused| v1::SetPausedReply { paused }).map_err(|gone| ended(&gone)))
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
    async fn resynced(&self, request: &v1::ResyncRequest, who: String) -> Result<change::Stream, Problem> {
        let scope = match request.scope() {
            v1::Scope::Upstream => kilter_events::Scope::Upstream,
            v1::Scope::Downstream => kilter_events::Scope::Downstream,
            v1::Scope::Full | v1::Scope::Unspecified => kilter_events::Scope::Full,
        };
        let asked = AskedResync { scope, prune: request.prune, description: format!("asked for by {who}") };
        let changing = self.desk.resync(asked).await;
        Ok(relay(self, changing, Vec::new(), Vec::new()))
    }
}
