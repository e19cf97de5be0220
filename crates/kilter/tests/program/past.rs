//! The past and the present as they are listed and watched, whole: the kernel tells nobody of a kernel parameter, so that
//! nothing happens but what somebody does.

use crate::program::Running;
use crate::verbs::Story;

const SITE: &str = "kind: sysctl\nname: net.ipv4.ip_default_ttl\nvalue: \"70\"\n";

#[test]
fn what_happened_is_listed_whole_in_every_form() {
    let mut story = Story::of("past", SITE);
    let more = story.file("more", "kind: sysctl\nname: net.ipv4.tcp_fin_timeout\nvalue: \"50\"\n");
    let wrong = story.file("wrong", "kind: sysctl\nname: net.ipv4.tcp_fin_timeout\nvalue: banana\n");
    let session = &mut story.session;
    session.kilter("txn list");
    session.kilter("events list");
    session.kilter(&format!("apply -f {more}"));
    session.kilter(&format!("apply -f {wrong}"));
    session.kilter("source remove cli --yes");
    for verb in ["txn", "events"] {
        for rest in
            ["list", "list --last 1", "list -o json", "list -o yaml", "show 2 -o json", "show 2 -o yaml"]
        {
            session.kilter(&format!("{verb} {rest}"));
        }
    }
    story.session.hold_against("past");
    assert_eq!(story.running.end("TERM").0, Some(0));
}

#[test]
fn a_watch_is_shown_whole_in_every_form() {
    let mut story = Story::of("watched", SITE);
    let more = story.file("more", "kind: sysctl\nname: net.ipv4.tcp_fin_timeout\nvalue: \"50\"\n");
    let socket = story.session.socket().to_owned();
    let mut watches = [("table", "1 item"), ("json", "{"), ("yaml", "cursor:")].map(|(form, last)| {
        let mut watch = Running::start(&["--socket", &socket, "watch", "linux/sysctl/", "-o", form]);
        let line = watch.wait_for_line(last);
        (form, watch, line)
    });
    // Which run of the agent it is differs from run to run.
    let (_, _, cursor) = &watches[2];
    let run = cursor.trim().trim_start_matches("cursor: ").rsplit_once(':').unwrap().0;
    story.session.call(run, "RUN");
    // What happens while nobody takes what is told is told as one.
    let is_told = |watches: &mut [(&str, Running, String)]| {
        let ends = ["linux/sysctl/host/net.ipv4.tcp_fin_timeout", "{", "cursor:"];
        for ((_, watch, _), end) in watches.iter_mut().zip(ends) {
            watch.wait_for_line(end);
        }
    };
    story.session.kilter(&format!("apply -f {more}"));
    is_told(&mut watches);
    story.session.kilter("source remove cli --yes");
    is_told(&mut watches);
    for (form, watch, _) in watches {
        story.session.told(&format!("watch linux/sysctl/ -o {form}"), &watch.end("KILL").1);
    }
    story.session.hold_against("watched");
    assert_eq!(story.running.end("TERM").0, Some(0));
}
