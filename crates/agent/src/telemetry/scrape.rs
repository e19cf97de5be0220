//! The numbers over HTTP: `GET /metrics`, and nothing else.

use std::future::Future;
use std::io;
use std::net::SocketAddr;

use axum::Router;
use axum::http::header::CONTENT_TYPE;
use axum::routing::get;
use serde::{Deserialize, Serialize};
use tokio::net::TcpListener;

use super::Metrics;

/// What the text is, for whoever reads it.
const FORM: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// What can be set about the numbers.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct Settings {
    /// Where the numbers may be read over HTTP, such as `127.0.0.1:9157`. Default: nowhere.
    pub listen: Option<SocketAddr>,
}

/// Why the numbers cannot be read.
#[derive(Debug, thiserror::Error)]
#[error("failed to listen for whoever reads the metrics at `{listen}`")]
pub struct ScrapeError {
    listen: SocketAddr,
    #[source]
    source: io::Error,
}

/// Tells the numbers to whoever asks at the returned address, until the returned future is dropped; `None` if nobody may ask.
pub async fn serve(
    settings: &Settings,
    metrics: Metrics,
) -> Result<Option<(SocketAddr, impl Future<Output = ()> + Send + 'static)>, ScrapeError> {
    let Some(listen) = settings.listen else { return Ok(None) };
    let failed = |source| ScrapeError { listen, source };
    let listener = TcpListener::bind(listen).await.map_err(failed)?;
    let address = listener.local_addr().map_err(failed)?;
    let tell = move || {
        let text = metrics.text();
        async move { ([(CONTENT_TYPE, FORM)], text) }
    };
    let routes = Router::new().route("/metrics", get(tell));
    let serving = async move {
        // Whoever cannot be accepted asks again.
        let _ = axum::serve(listener, routes).await;
    };
    Ok(Some((address, serving)))
}
