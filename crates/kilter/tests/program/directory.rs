//! The directory is followed while `up` runs.

use crate::daemon::script;
use crate::outcomes::Folder;
use crate::program::{Running, sh, wait_for};

const SWITCH: &str = "kind: netns\nname: switch\n---\nkind: bridge\nname: lan\nnetns: switch\n";

#[test]
fn a_directory_that_changes_is_declared_anew_and_a_broken_one_changes_nothing() {
    let folder = Folder::of("followed", SWITCH);
    let mut running = Running::start(&["up", folder.path(), "--sandbox"]);
    let line = running.wait_for_line("nsenter ");
    let inside = line.trim().strip_suffix(" ip netns").unwrap().to_owned();
    let links = || sh(&format!("{inside} ip netns exec switch ip -br link")).unwrap();
    running.wait_for_line("healing until stopped");

    // A file more.
    folder.write("more.yaml", "kind: bridge\nname: dmz\nnetns: switch\n");
    running.wait_for_line("plan: ");
    running.wait_for_line("create   linux/link/switch/dmz");
    running.wait_for_line("3 items: 3 CONFIGURED");
    assert!(links().contains("dmz"));

    // A file that is wrong: nothing changes, and healing goes on.
    folder.write("more.yaml", "kind: brige\n");
    running.wait_for_line("the directory has changed, and cannot be used");
    sh(&format!("{inside} ip netns exec switch ip link del dmz")).unwrap();
    running.wait_for_line("drift: ");
    wait_for("the bridge is back", || links().contains("dmz"));

    // A directory that is empty declares nothing new either: it may be a disk that is not mounted.
    folder.remove("more.yaml");
    running.wait_for_line("delete   linux/link/switch/dmz");
    folder.remove("site.yaml");
    running.wait_for_line("the directory has changed, and cannot be used");
    assert!(links().contains("lan"));
    let (code, said) = running.end("TERM");
    assert_eq!(code, Some(0), "{said:#?}");
}

#[test]
fn a_file_that_is_written_in_pieces_is_taken_when_it_is_whole() {
    let said = script(
        "(netns one; echo ---; netns two) > /run/site/site.yaml; begin /run/log1; ip netns | sort | xargs
         printf '{kind: netns, name: one}\\n---\\n{kind: netns, ' > /run/site/site.yaml
         until_true 'grep -q \"cannot be used\" /run/log1'; ip netns | sort | xargs
         printf 'name: two}\\n---\\n{kind: netns, name: three}\\n' >> /run/site/site.yaml
         until_true 'ip netns | grep -q three'; ip netns | sort | xargs
         $program timeline linux/netns/two | grep -c delete; end",
    );
    assert_eq!(said, "one two\none two\none three two\n0\ncode 0\n");
}
