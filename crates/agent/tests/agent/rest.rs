//! What the REST interface promises, over a running agent.

use serde_json::{Value, json};

use crate::http::{Answer, request};
use crate::served::{ADMIN, OPERATOR, Served};

fn keys(page: &Value) -> Vec<&str> {
    page["items"].as_array().unwrap().iter().map(|item| item["key"].as_str().unwrap()).collect()
}

#[tokio::test]
async fn items_come_page_by_page_and_filtered() {
    let served = Served::start().await;
    served.house.apply("one", &["a/1", "a/2", "b/1 on=none/1"]).await.unwrap();
    served.house.apply("two", &["c/1"]).await.unwrap();
    let page = served.get("/api/v1/items?limit=3").await.json();
    assert_eq!((keys(&page), &page["next"]), (vec!["a/1", "a/2", "b/1"], &json!("b/1")));
    let rest = served.get("/api/v1/items?limit=3&after=b%2F1").await.json();
    assert_eq!((keys(&rest), &rest["next"]), (vec!["c/1"], &Value::Null));
    assert_eq!(keys(&served.get("/api/v1/items?state=PENDING").await.json()), ["b/1"]);
    assert_eq!(keys(&served.get("/api/v1/items?source=two").await.json()), ["c/1"]);
    assert_eq!(keys(&served.get("/api/v1/items?prefix=a/").await.json()), ["a/1", "a/2"]);
    served.end().await;
}

#[tokio::test]
async fn an_item_has_a_tag_that_changes_with_it() {
    let served = Served::start().await;
    served.house.apply("cli", &["a/1 v=1"]).await.unwrap();
    let item = served.get("/api/v1/items/a/1").await;
    let tag = item.header("etag").unwrap().to_owned();
    assert_eq!((item.status, &item.json()["state"]), (200, &json!("CONFIGURED")));
    let known = format!("if-none-match: {tag}");
    let again = served.say(&request("GET", "/api/v1/items/a/1", &[OPERATOR, &known], "")).await;
    assert_eq!((again.status, again.body.len()), (304, 0));
    served.house.apply("cli", &["a/1 v=2"]).await.unwrap();
    let other = served.say(&request("GET", "/api/v1/items/a/1", &[OPERATOR, &known], "")).await;
    assert_eq!(other.status, 200);
    assert_ne!(other.header("etag"), Some(tag.as_str()));
    served.end().await;
}

#[tokio::test]
async fn an_item_is_put_and_deleted_only_as_it_is_known() {
    let served = Served::start().await;
    let body = json!({ "kind": "netns", "value": { "name": "left" } });
    let put = served.send("PUT", "/api/v1/items/linux/netns/left", &body).await;
    assert_eq!(put.status, 200, "{}", put.text());
    let tag = served.get("/api/v1/items/linux/netns/left").await.header("etag").unwrap().to_owned();
    let path = "/api/v1/items/linux/netns/left";
    let stale = served.say(&request("DELETE", path, &[OPERATOR, "if-match: \"other\""], "")).await;
    assert_eq!(stale.status, 412, "{}", stale.text());
    let known = format!("if-match: {tag}");
    let deleted = served.say(&request("DELETE", path, &[OPERATOR, &known], "")).await;
    assert_eq!(deleted.status, 200, "{}", deleted.text());
    assert_eq!(served.get(path).await.status, 404);
    let other = served.send("PUT", "/api/v1/items/linux/netns/right", &body).await;
    assert_eq!(other.status, 400, "the value gives another key");
    served.end().await;
}

#[tokio::test]
async fn a_problem_says_what_where_and_what_to_do() {
    let served = Served::start().await;
    let document = json!({ "name": "site.yaml", "text": "kind: netns\nnam: left\n" });
    let answer = served.send("POST", "/api/v1/plan", &json!({ "documents": [document] })).await;
    assert_eq!((answer.status, answer.header("content-type")), (400, Some("application/problem+json")));
    let problem = answer.json();
    assert_eq!((&problem["status"], &problem["reason"]), (&json!(400), &json!("INVALID")));
    let misplaced = &problem["misplaced"][0];
    assert_eq!((&misplaced["place"]["file"], &misplaced["place"]["line"]), (&json!("site.yaml"), &json!(2)));
    served.house.apply("cli", &["tap/my-tap"]).await.unwrap();
    let missing = served.get("/api/v1/explain?key=tap/my-tab").await;
    assert_eq!((missing.status, &missing.json()["hint"]), (404, &json!("did you mean `tap/my-tap`?")));
    for (path, status) in [
        ("/api/v1/explain", 400),
        ("/api/v1/items?limit=0", 400),
        ("/api/v1/items?limti=1", 400),
        ("/api/v1/items?state=SLEEPY", 400),
        ("/api/v1/transactions/x", 400),
        ("/api/v1/transactions/99", 404),
        ("/api/v1/graph?focus=nobody", 404),
    ] {
        let answer = served.get(path).await;
        assert_eq!(
            (answer.status, answer.json()["status"].as_u64()),
            (status, Some(status.into())),
            "{path}"
        );
    }
    assert_eq!(served.send("PATCH", "/api/v1/items", &json!({})).await.status, 405);
    served.end().await;
}

#[tokio::test]
async fn what_is_planned_is_applied_and_an_old_plan_is_refused() {
    let served = Served::start().await;
    let item = json!({ "kind": "netns", "value": { "name": "left" } });
    let plan = served.send("POST", "/api/v1/plan", &json!({ "items": [item], "source": "web" })).await.json();
    assert_eq!(plan["steps"].as_array().unwrap().len(), 1);
    let body = json!({ "items": [item], "source": "web", "expected_hash": plan["hash"] });
    let ended = served.send("POST", "/api/v1/apply", &body).await;
    assert_eq!(ended.status, 200, "{}", ended.text());
    let again = served.send("POST", "/api/v1/apply", &body).await;
    assert_eq!((again.status, &again.json()["reason"]), (409, &json!("STALE")));
    let wrong = json!({ "items": [item], "expected_hsh": "1" });
    assert_eq!(served.send("POST", "/api/v1/apply", &wrong).await.status, 400, "a misspelt field is told");
    let hasty = json!({ "items": [item], "retry": { "period": "1ms", "count": 3 } });
    assert_eq!(served.send("POST", "/api/v1/apply", &hasty).await.status, 400, "not that often");
    let patient = json!({ "items": [item], "retry": { "period": "5s", "count": 3, "longest": "1m" } });
    assert_eq!(served.send("POST", "/api/v1/apply", &patient).await.status, 200);
    let both = json!({ "items": [item], "revert_to": 1 });
    assert_eq!(served.send("POST", "/api/v1/plan", &both).await.status, 400);
    served.end().await;
}

#[tokio::test]
async fn an_application_tells_how_it_goes_as_events() {
    let served = Served::start().await;
    let body = json!({ "items": [{ "kind": "netns", "value": { "name": "left" } }] }).to_string();
    let headers = [OPERATOR, "accept: text/event-stream"];
    let answer = served.say(&request("POST", "/api/v1/apply", &headers, &body)).await;
    assert_eq!(answer.header("content-type"), Some("text/event-stream"));
    let events: Vec<&str> = answer.text().lines().filter_map(|line| line.strip_prefix("event: ")).collect();
    assert_eq!((events.first(), events.last()), (Some(&"planned"), Some(&"ended")));
    served.end().await;
}

#[tokio::test]
async fn the_graph_is_data_a_picture_and_text() {
    let served = Served::start().await;
    served.house.apply("cli", &["a/1", "b/1 on=a/1", "c/1 on=none/1"]).await.unwrap();
    let graph = served.get("/api/v1/graph").await.json();
    assert_eq!(graph["vertices"].as_array().unwrap().len(), 3);
    let near = served.get("/api/v1/graph?focus=a/1&depth=1").await.json();
    assert_eq!(near["vertices"].as_array().unwrap().len(), 2);
    let seq = graph["after_txn"].as_u64().unwrap();
    let picture = served.get(&format!("/api/v1/graph.svg?txn={seq}")).await;
    assert_eq!(picture.header("content-type"), Some("image/svg+xml"));
    assert!(picture.text().contains("stroke=\"gold\""), "{}", picture.text());
    assert!(picture.text().contains("href=\"/#/item/a/1\""), "it leads to the page: {}", picture.text());
    let dot = served.get("/scheduler/graph?format=dot").await;
    assert!(dot.text().contains("\"b/1\" -> \"a/1\""), "{}", dot.text());
    assert!(dot.text().contains("[color=red"), "{}", dot.text());
    served.end().await;
}

#[tokio::test]
async fn lists_are_read_page_by_page_forwards_and_backwards() {
    let served = Served::start().await;
    for number in 1..=5 {
        served.house.apply("cli", &[&format!("a/{number}"), &format!("b/1 v={number}")]).await.unwrap();
    }
    let texts = |list: &Value, name: &str| -> Vec<String> {
        list.as_array().unwrap().iter().map(|one| one[name].to_string()).collect()
    };
    let mut keys = Vec::new();
    let mut path = "/api/v1/statuses?limit=4".to_owned();
    loop {
        let page = served.get(&path).await.json();
        keys.extend(texts(&page["statuses"], "key"));
        let Some(next) = page["next"].as_str() else { break };
        path = format!("/api/v1/statuses?limit=4&after={next}");
    }
    assert_eq!(keys.join(" ").replace('"', ""), "a/1 a/2 a/3 a/4 a/5 b/1");
    assert_eq!(served.get("/api/v1/statuses?limit=0").await.status, 400);

    // Each list whole, and the same by going back two at a time.
    for (path, list, seq) in [
        ("/api/v1/transactions?", "transactions", "seq"),
        ("/api/v1/events?", "events", "seq"),
        ("/api/v1/timeline?key=b/1&", "moments", "txn"),
    ] {
        let whole = texts(&served.get(path.trim_end_matches(['?', '&'])).await.json()[list], seq);
        assert!(whole.len() >= 5, "{path}: {whole:?}");
        let (mut backwards, mut before) = (Vec::<String>::new(), String::new());
        loop {
            let page = served.get(&format!("{path}last=2{before}")).await.json();
            let texts = texts(&page[list], seq);
            assert!(!texts.is_empty() && texts.len() <= 2, "{path}: {page}");
            backwards.splice(0..0, texts);
            match page["next_page_token"].as_str().unwrap() {
                "" => break,
                next => before = format!("&before={next}"),
            }
        }
        assert_eq!(backwards, whole, "{path}");
    }
    served.end().await;
}

#[tokio::test]
async fn what_there_is_is_exported_and_waited_for() {
    let served = Served::start().await;
    let item = json!({ "kind": "netns", "value": { "name": "left" } });
    assert_eq!(served.send("POST", "/api/v1/apply", &json!({ "items": [item] })).await.status, 200);
    let export = served.get("/api/v1/export?declared=true").await;
    assert_eq!((export.status, export.header("content-type")), (200, Some("text/yaml")));
    assert_eq!(export.text().trim(), "kind: netns\nname: left");
    assert_eq!(served.get("/api/v1/export?prefix=linux/link").await.text().trim(), "");
    let waited = served.send("POST", "/api/v1/wait", &json!({ "timeout": "1m" })).await.json();
    assert_eq!(waited["settled"], true, "{waited}");
    served.house.apply("cli", &["b/1 on=none/1"]).await.unwrap();
    let waited = served.send("POST", "/api/v1/wait", &json!({ "timeout": "1m" })).await.json();
    let unsettled: Vec<_> = waited["unsettled"].as_array().unwrap().iter().map(|one| &one["key"]).collect();
    assert!(unsettled.contains(&&json!("b/1")), "{waited}");
    assert_eq!(served.send("POST", "/api/v1/wait", &json!({ "timeout": "soon" })).await.status, 400);
    served.end().await;
}

/// What an answer violates of its description.
fn violations(description: &Value, told: &Value, answer: &Answer) -> Vec<String> {
    let media = answer.header("content-type").unwrap_or_default().split(';').next().unwrap_or_default();
    let Some(content) = told["content"].get(media) else {
        return vec![format!("`{media}` is not described")];
    };
    if !media.ends_with("json") {
        return Vec::new();
    }
    let mut schema = content["schema"].clone();
    schema["components"] = description["components"].clone();
    let validator = jsonschema::validator_for(&schema).unwrap();
    validator.iter_errors(&answer.json()).map(|error| format!("{}: {error}", error.instance_path())).collect()
}

#[tokio::test]
async fn what_is_described_is_what_is_served() {
    let served = Served::start().await;
    let put = json!({ "kind": "netns", "value": { "name": "left" } });
    let answer = served.send("PUT", "/api/v1/items/linux/netns/left", &put).await;
    assert_eq!(answer.status, 200, "{}", answer.text());
    served.house.apply("cli", &["a/1", "b/1 on=none/1"]).await.unwrap();
    let description = served.get("/api/v1/openapi.json").await.json();
    assert_eq!(description["openapi"], "3.1.0");
    let mut went_well = 0;
    for (path, operations) in description["paths"].as_object().unwrap() {
        if operations.get("get").is_none() || path == "/api/v1/watch" {
            continue;
        }
        // Something that is not there, something that is, and without what may be left out.
        let varied = |key: &str, seq: &str| path.replace("{key}", key).replace("{seq}", seq);
        let asked = [
            varied("no/such", "0"),
            varied("a/1", "2"),
            format!("{path}?key=a/1"),
            format!("{path}?key-prefix=a/"),
            format!("{path}?flag=value-state"),
            format!("{path}?from=1"),
        ];
        for asked in asked {
            let answer = served.say(&request("GET", &asked, &[ADMIN], "")).await;
            let told = &operations["get"]["responses"][answer.status.to_string()];
            assert!(told.is_object(), "GET {asked} answers {}, which is not described", answer.status);
            let violated = violations(&description, told, &answer);
            assert!(violated.is_empty(), "GET {asked}: {violated:?}: {}", answer.text());
            went_well += usize::from(answer.status == 200);
        }
    }
    assert!(went_well > 40, "only {went_well} requests were good ones");
    served.end().await;
}
