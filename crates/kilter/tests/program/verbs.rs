//! Every verb that asks an agent, typed at a real one in a sandbox.

use crate::golden::Transcript;
use crate::outcomes::{Folder, as_nobody};
use crate::program::{Running, kilter, run, sh, wait_for};

const SITE: &str = "kind: netns\nname: switch\n---\nkind: bridge\nname: lan\nnetns: switch\nstate: up\n\
                    addresses: [10.0.0.1/24]\n---\nkind: route\nnetns: switch\ndestination: 10.9.0.0/16\nvia: 10.0.0.2\n---\n\
                    kind: macvlan\nname: child\nlink: eth9\nnetns: switch\n";

/// An agent in a sandbox, with what goes with it.
pub(crate) struct Story {
    pub(crate) running: Running,
    /// How to run something inside.
    inside: String,
    pub(crate) session: Transcript,
    /// What the agent follows.
    site: Folder,
    /// Files that the agent does not look at.
    desk: Folder,
}

impl Story {
    fn begin(name: &str) -> Self {
        Self::of(name, SITE)
    }

    /// An agent that follows this document.
    pub(crate) fn of(name: &str, document: &str) -> Self {
        let (site, desk) = (Folder::of(name, document), Folder::of(&format!("{name}-desk"), document));
        let socket = format!("{}/agent.sock", desk.path());
        let mut running = Running::start(&["--socket", &socket, "up", site.path(), "--sandbox"]);
        let line = running.wait_for_line("nsenter ");
        let inside = line.trim().strip_suffix(" ip netns").unwrap().to_owned();
        running.wait_for_line("healing until stopped");
        let mut session = Transcript::new(&socket);
        session.call(desk.path(), "DESK");
        session.call(site.path(), "SITE");
        Self { running, inside, session, site, desk }
    }

    /// A file on the desk.
    pub(crate) fn file(&self, name: &str, text: &str) -> String {
        self.desk.write(name, text);
        format!("{}/{name}", self.desk.path())
    }

    /// Whether what is run inside succeeds and says something.
    fn inside(&self, line: &str) -> bool {
        sh(&format!("{} {line}", self.inside)).is_ok_and(|said| !said.is_empty())
    }
}

/// The number of the transaction that a verb tells of.
fn txn(said: &str) -> u64 {
    let after = said.rsplit_once("txn #").unwrap().1;
    after.split(' ').next().unwrap().parse().unwrap()
}

#[test]
fn whoever_looks_is_told_what_there_is_and_why() {
    let mut story = Story::begin("looking");
    for line in [
        "status",
        "status linux/link/switch/lan",
        "status linux/link/switch/child -o yaml",
        "get items",
        "get items --state PENDING -o json",
        "get items --derived --kind linux.up -o yaml",
        "get sources",
        "get kinds",
        "explain linux/link/switch/child",
        "explain linux/link/switch/lan",
        "timeline linux/link/switch/lan",
        "graph linux/route",
        "graph linux/route --at 1",
        "graph linux/link/switch/child -o dot",
        "export --declared",
        "export linux/route",
        "events show 0",
        "txn show 1",
        "wait --timeout 60s",
        "status --agent",
        "explain linux/link/switch/child -o yaml",
        "timeline linux/link/switch/lan -o yaml",
        "graph linux/route -o yaml",
        "get sources -o yaml",
        "confirm --show -o yaml",
        "wait --timeout 60s -o yaml",
    ] {
        story.session.kilter(line);
    }

    // Somebody else removes the bridge; the agent heals, and knows who did what.
    assert!(sh(&format!("{} ip netns exec switch ip link del lan", story.inside)).is_ok());
    wait_for("it is back, and told so", || {
        let mut explain = kilter(&["explain", "linux/link/switch/lan"]);
        explain.env("KILTER_SOCKET", story.session.socket());
        run(explain).stdout.contains("by healing")
            && story.inside("ip netns exec switch ip -br link show dev lan up")
    });
    story.session.kilter("wait --timeout 60s");
    story.session.kilter("explain linux/link/switch/lan");
    // Somebody declares what the kernel refuses.
    let wrong =
        story.file("wrong", "kind: sysctl\nname: net.ipv4.ip_forward\nnetns: switch\nvalue: banana\n");
    story.session.kilter(&format!("apply -f {wrong} --on-failure continue"));
    story.session.kilter("explain linux/sysctl/switch/net.ipv4.ip_forward");
    story.session.hold_against("looking");
    assert_eq!(story.running.end("TERM").0, Some(4));
}

#[test]
fn whoever_changes_something_sees_the_plan_and_its_blast_radius_first() {
    let mut story = Story::begin("changing");
    let more = story.file("more", "kind: bridge\nname: dmz\nnetns: switch\nmtu: 1400\n");
    let wider = story.file("wider", "kind: bridge\nname: dmz\nnetns: switch\nmtu: 9000\n");
    let other = story.file("other", "kind: ifb\nname: dmz\nnetns: switch\n");
    let route = story.file("route", "kind: route\nnetns: switch\ndestination: 10.9.0.0/16\nvia: 10.0.0.3\n");
    let wrong = story.file("wrong", "kind: sysctl\nname: net.ipv4.ip_forward\nvalue: banana\n");
    let pruned = story.file("pruned", "kind: bridge\nname: old\nnetns: switch\n");
    let pruner = story.file("pruner", "kind: bridge\nname: new\nnetns: switch\n");
    let (plan, stale) = (story.file("plan", ""), story.file("stale", ""));
    let session = &mut story.session;
    session.kilter(&format!("plan {more}"));
    let made = txn(&session.kilter(&format!("apply -f {more}")));
    session.kilter(&format!("apply -f {more}"));
    session.kilter(&format!("diff {wider}"));
    session.kilter(&format!("plan {wider} -o {plan}"));
    session.kilter(&format!("plan {other} -o {stale}"));
    session.kilter(&format!("apply {plan}"));
    session.kilter(&format!("apply {stale}"));
    session.kilter(&format!("apply -f {other} --wait 60s"));
    session.kilter(&format!("apply -f {route} --source guest"));
    session.kilter("get sources");
    session.kilter("explain linux/route/switch/main/10.9.0.0/16/0");
    session.kilter(&format!("apply -f {pruned} --source pruned"));
    session.kilter(&format!("plan {pruner} --source pruned --prune"));
    session.kilter(&format!("apply -f {pruner} --source pruned --prune"));
    session.kilter("source remove pruned --yes");
    let reverted = txn(&session.kilter(&format!("apply -f {wrong}")));
    session.kilter(&format!("txn show {made}"));
    session.kilter(&format!("txn show {reverted}"));
    session.kilter(&format!("diff --from {} --to {made}", made - 1));
    session.kilter(&format!("revert {} --plan", made - 1));
    session.kilter(&format!("revert {} --yes", made - 1));
    session.kilter("timeline linux/link/switch/dmz");
    session.kilter("resync --scope upstream");
    session.kilter("pause linux/route/");
    session.kilter("resume linux/route/");
    session.kilter("source remove guest --yes");
    let list = session.look("txn list --last 0");
    assert!(list.lines().next().unwrap().starts_with("TXN  START (UTC)"), "{list}");
    assert!(list.lines().any(|line| line.contains("reverted") && line.contains("(EINVAL)")), "{list}");
    let list = session.look("events list --last 0");
    let shown: Vec<String> =
        list.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect();
    assert_eq!(shown[0], "EVENT START (UTC) TOOK METHOD TXN WHAT", "{list}");
    assert!(
        shown[1].starts_with("0 ") && shown[1].ends_with("full resync #1 Database Resync (Remote)"),
        "{list}"
    );
    let events: serde_json::Value =
        serde_json::from_str(&session.look("events list --last 0 -o json")).unwrap();
    let names: Vec<&str> =
        events["events"].as_array().unwrap().iter().map(|one| one["name"].as_str().unwrap()).collect();
    assert!(
        names.contains(&"Declared Change [cli]") && names.contains(&"Declared Change [guest]"),
        "{names:?}"
    );
    story.session.hold_against("changing");
    assert_eq!(story.running.end("TERM").0, Some(3));
}

#[test]
fn what_cannot_be_done_is_said_in_words_with_a_code_and_a_hint() {
    let mut story = Story::begin("refused");
    let wrong = story.file("wrong", "kind: brige\nname: a\n");
    let plain = story.file("plain", SITE);
    for line in [
        "status linux/link/switch/lam",
        "explain linux/link/switch/lam",
        "timeline nothing-like-it",
        "confirm",
        "source remove nobody --yes",
        &format!("apply -f {wrong}"),
        &format!("apply {plain}"),
        &format!("apply -f {plain} --source directory"),
        &format!("apply -f {plain} --source bad!name"),
    ] {
        story.session.kilter(line);
    }
    assert!(story.session.look("txn show 9999").is_empty());
    assert_eq!(story.running.end("TERM").0, Some(3));
    story.session.kilter("status");
    story.session.kilter("apply --confirm soon -f nothing");
    story.session.hold_against("refused");
}

#[test]
fn a_change_that_is_not_confirmed_goes_back() {
    let mut story = Story::begin("confirming");
    let more = story.file("more", "kind: bridge\nname: dmz\nnetns: switch\n");
    let apply = format!("apply -f {more} --confirm");
    let session = &mut story.session;
    session.kilter(&format!("{apply} 1h"));
    session.kilter(&format!("{apply} 1h"));
    session.kilter("confirm --show");
    session.kilter("confirm --extend 2h");
    session.kilter("confirm --cancel");
    session.kilter("status linux/link/switch/dmz");
    let kept = txn(&session.kilter(&format!("{apply} 1h --yes")));
    session.kilter(&format!("confirm {kept}"));
    session.kilter("confirm");
    session.kilter(&format!("{apply} 1h"));
    session.kilter("confirm --show");
    session.kilter("source remove cli --yes");

    // Probes decide long before the hour is over.
    session.kilter(&format!("{apply} 1h --probe cmd:false"));
    wait_for("it is taken back", || session.look("status linux/link/switch/dmz").is_empty());
    session.kilter(&format!("{apply} 1h --probe cmd:true"));
    wait_for("it is confirmed", || session.look("confirm --show").starts_with("nothing waits"));
    session.kilter("status linux/link/switch/dmz");
    story.session.hold_against("confirming");
    assert_eq!(story.running.end("TERM").0, Some(3));
}

#[test]
fn whoever_may_not_is_told_so_and_whoever_may_only_look_changes_nothing() {
    let story = Story::begin("forbidden");
    let socket = story.session.socket().to_owned();
    let more = story.file("more", "kind: bridge\nname: dmz\nnetns: switch\n");
    let Some(ended) = as_nobody(&["--socket", &socket, "status", "-o", "table"]) else { return };
    assert_eq!(ended.code, Some(7), "{ended:?}");
    assert!(ended.stderr.starts_with("error: this user may not talk to the agent at"), "{}", ended.stderr);

    // Somebody lets everybody in: that is for looking.
    sh(&format!("chmod 666 {socket}")).unwrap();
    let looked = as_nobody(&["--socket", &socket, "status", "-o", "table"]).unwrap();
    assert_eq!(looked.code, Some(3), "{looked:?}");
    let changed = as_nobody(&["--socket", &socket, "apply", "-f", &more]).unwrap();
    assert_eq!(changed.code, Some(7), "{changed:?}");
    assert!(
        changed.stderr.contains("may look, but not change anything\n  hint: become root"),
        "{}",
        changed.stderr
    );
    assert!(!story.session.look("get items").contains("dmz"));
    assert_eq!(story.running.end("TERM").0, Some(3));
}

#[test]
fn a_watch_begins_with_everything_and_tells_what_changes() {
    let story = Story::begin("watching");
    let socket = story.session.socket().to_owned();
    let mut watch = Running::start(&["--socket", &socket, "watch", "linux/link/", "-o", "json"]);
    let line = watch.wait_for_line("{");
    let first: serde_json::Value = serde_json::from_str(&line).unwrap();
    assert_eq!(first["snapshot"], true, "{line}");
    let states: Vec<&str> =
        first["statuses"].as_array().unwrap().iter().map(|one| one["state"].as_str().unwrap()).collect();
    assert!(states.contains(&"PENDING") && states.contains(&"CONFIGURED"), "{line}");
    story.site.write("more.yaml", "kind: bridge\nname: dmz\nnetns: switch\n");
    let names_dmz = |line: &str| {
        let told: serde_json::Value = serde_json::from_str(line).unwrap();
        assert_eq!(told["snapshot"], false, "{line}");
        told["statuses"].as_array().unwrap().iter().any(|one| one["key"] == "linux/link/switch/dmz")
    };
    while !names_dmz(&watch.wait_for_line("{")) {}

    // Whoever comes back with a cursor hears what it missed, and nothing else.
    let cursor = first["cursor"].as_str().unwrap();
    let again = ["--socket", &socket, "watch", "linux/link/", "--cursor", cursor, "-o", "json"];
    let mut again = Running::start(&again);
    assert!(names_dmz(&again.wait_for_line("{")));
    // A person sees a table, then a line for each change.
    let mut seen = Running::start(&["--socket", &socket, "watch", "linux/link/"]);
    assert_eq!(seen.wait_for_line("ITEM").trim_end(), "ITEM                     STATE");
    seen.wait_for_line("5 items: 2 CONFIGURED, 2 OBTAINED, 1 PENDING");
    story.site.remove("more.yaml");
    seen.wait_for_line("linux/link/switch/dmz NONEXISTENT");
    // A cursor of another run begins anew.
    let other = ["--socket", &socket, "watch", "--cursor", "0-0:1", "-o", "json"];
    assert!(Running::start(&other).wait_for_line("{").starts_with("{\"snapshot\":true"));
    assert_eq!(story.running.end("TERM").0, Some(3));
}
