//! Assets: the web pages inside the program, and what a browser may do with them.
//!
//! Decided here: which headers every asset carries, and which page `kilter eventflow run` shows. Not decided here: who
//! may see the agent's page; that is for `rest`. What the pages show is in `ui/`.

use axum::Router;
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, Uri, header};
use axum::response::{IntoResponse as _, Response};
use rust_embed::{EmbeddedFile, RustEmbed};

use super::rest::items::is_named;

/// What the pages are made of.
#[derive(RustEmbed)]
#[folder = "../../ui/dist"]
struct Assets;

/// The page of the agent.
pub(crate) const AGENT: &str = "index.html";

/// The page of flows.
pub(crate) const FLOWS: &str = "flows.html";

/// What a browser may do with a page: nothing from elsewhere, and inside no other page.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; \
    connect-src 'self'; worker-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'";

const HEADERS: &[(&str, &str)] = &[
    ("content-security-policy", POLICY),
    ("x-content-type-options", "nosniff"),
    ("referrer-policy", "no-referrer"),
    ("x-frame-options", "DENY"),
    // The names stay the same from version to version, so a browser asks each time whether it has the newest.
    ("cache-control", "no-cache"),
];

/// One asset; none if there is none of this name.
pub(crate) fn asset(name: &str, headers: &HeaderMap) -> Option<Response> {
    Assets::get(name).map(|file| answer(name, file, headers))
}

/// The page of flows, with what belongs to it and nothing else.
pub(crate) fn flows() -> Router {
    Router::new().fallback(async |method: Method, uri: Uri, headers: HeaderMap| {
        let name = match uri.path().trim_start_matches('/') {
            "" => FLOWS,
            name => name,
        };
        let is_asked = matches!(method, Method::GET | Method::HEAD) && name != AGENT;
        let found = is_asked.then(|| asset(name, &headers)).flatten();
        found.unwrap_or_else(|| (StatusCode::NOT_FOUND, "there is nothing here\n").into_response())
    })
}

fn answer(name: &str, file: EmbeddedFile, headers: &HeaderMap) -> Response {
    let hash: String = file.metadata.sha256_hash()[..16].iter().map(|byte| format!("{byte:02x}")).collect();
    let tag = format!("\"{hash}\"");
    let mut response = if is_named(headers, header::IF_NONE_MATCH, &tag) {
        StatusCode::NOT_MODIFIED.into_response()
    } else {
        ([(header::CONTENT_TYPE, media(name))], file.data.into_owned()).into_response()
    };
    if let Ok(tag) = HeaderValue::from_str(&tag) {
        response.headers_mut().insert(header::ETAG, tag);
    }
    protect(response.headers_mut());
    response
}

/// Says what a browser may do.
pub(crate) fn protect(headers: &mut HeaderMap) {
    for (name, value) in HEADERS {
        headers.insert(HeaderName::from_static(name), HeaderValue::from_static(value));
    }
}

/// The media type of an asset.
fn media(name: &str) -> &'static str {
    match name.rsplit('.').next() {
        Some("html") => "text/html; charset=utf-8",
        Some("js") => "text/javascript; charset=utf-8",
        Some("css") => "text/css; charset=utf-8",
        Some("svg") => "image/svg+xml",
        Some("woff2") => "font/woff2",
        Some("png") => "image/png",
        _ => "application/octet-stream",
    }
}

#[cfg(test)]
mod tests {
    use axum::body::Body;
    use axum::http::Request;
    use tower::ServiceExt as _;

    use super::*;

    async fn ask(path: &str) -> Response {
        flows().oneshot(Request::get(path).body(Body::empty()).unwrap()).await.unwrap()
    }

    #[tokio::test]
    async fn the_page_of_flows_comes_with_what_belongs_to_it_and_nothing_else() {
        let page = ask("/").await;
        assert_eq!(page.status(), StatusCode::OK);
        assert_eq!(page.headers()["content-security-policy"], POLICY);
        let bytes = axum::body::to_bytes(page.into_body(), usize::MAX).await.unwrap();
        let text = String::from_utf8(bytes.to_vec()).unwrap();
        let named =
            text.split('"').filter_map(|part| part.strip_prefix('.')).filter(|it| it.starts_with('/'));
        let named: Vec<&str> = named.collect();
        assert!(named.iter().any(|name| name.ends_with(".js")), "{text}");
        for name in named {
            assert_eq!(ask(name).await.status(), StatusCode::OK, "{name}");
        }
        for name in ["/index.html", "/nothing", "/metric"] {
            assert_eq!(ask(name).await.status(), StatusCode::NOT_FOUND, "{name}");
        }
    }
}
