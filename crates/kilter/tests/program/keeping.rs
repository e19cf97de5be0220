//! What outlives the daemon, and what it tells when something cannot.

use crate::daemon::script;

#[test]
fn probes_go_on_after_a_restart_and_decide() {
    let said = script(
        "begin /run/log1; netns good > /run/good.yaml; netns bad > /run/bad.yaml
         # Passes and fails by turns, so that it decides nothing before it is told to.
         cat > /run/probe <<'end_of_probe'
         test -e /run/fails && exit 1; test -e /run/passes && exit 0
         if test -e /run/odd; then rm /run/odd; else : > /run/odd; exit 1; fi
end_of_probe
         probe='cmd:sh /run/probe'
         $program apply -f /run/good.yaml --confirm 1h --probe \"$probe\" > /dev/null; kill_it
         : > /run/passes; begin /run/log2
         until_true \"$program confirm --show | grep -q '^nothing waits'\"; ip netns
         rm /run/passes; $program apply -f /run/bad.yaml --confirm 1h --probe \"$probe\" > /dev/null; kill_it
         ip netns | sort | xargs; begin /run/log3; : > /run/fails; until_true 'test \"$(ip netns | xargs)\" = good'; $program wait > /dev/null; ip netns; end",
    );
    assert_eq!(said, "good\nbad good\ngood\ncode 0\n");
}

#[test]
fn fields_that_a_change_added_go_back_with_it_also_by_the_agent_that_was_started_since() {
    let said = script(
        "ip link add theirs type veth peer name far; ip link set theirs alias before
         first() { printf -- '---\\nkind: bridge\\nname: ours\\n---\\nkind: existing\\nname: theirs\\n'; }
         more() { printf -- '---\\nkind: bridge\\nname: ours\\nmtu: 1400\\n---\\nkind: existing\\nname: theirs\\nmtu: 1300\\nalias: mine\\n'; }
         seen() { for link in ours theirs; do echo $link $(ip -o link show dev $link | grep -oE 'mtu [0-9]+|alias [a-z]+'); done; }
         first > /run/first.yaml; more > /run/more.yaml; begin /run/log1
         $program apply -f /run/first.yaml > /dev/null; seen > /run/before
         $program apply -f /run/more.yaml --confirm 1h > /dev/null; seen; kill_it
         begin /run/log2; seen; $program confirm --cancel > /dev/null; seen | cmp - /run/before && echo as before; end",
    );
    let changed = "ours mtu 1400\ntheirs mtu 1300 alias mine\n";
    assert_eq!(said, format!("{changed}{changed}as before\ncode 0\n"));
}

#[test]
fn a_history_that_cannot_be_written_is_told_and_so_is_its_end() {
    let said = script(
        "printf '[drift]\\nfight = 100000\\nbackoff-cap = \"200ms\"\\n' >> /run/kilter.toml
         mount -t tmpfs -o size=32m state /run/state; netns one > /run/site/one.yaml; begin /run/log1
         dd if=/dev/zero of=/run/state/ballast bs=4k 2> /dev/null
         until_true 'ip netns delete one 2> /dev/null; sleep 0.5; grep -q \"the history could not be written\" /run/log1'
         $program status --agent | grep -o 'history: .* could not be remembered'  | sed 's/[0-9][0-9]*/N/'
         rm /run/state/ballast; until_true 'ip netns | grep -q one'
         until_true 'ip netns delete one 2> /dev/null; sleep 0.5; grep -q \"the history is written again\" /run/log1'
         $program status --agent | grep -c history; end",
    );
    assert_eq!(said, "history: N records could not be remembered\n0\ncode 0\n");
}

#[test]
fn a_source_that_is_a_directory_is_listed_with_its_path() {
    let said = script(
        "netns one > /run/site/one.yaml; begin /run/log1; $program get sources | grep -o 'site.*/run/site'; end",
    );
    assert!(said.starts_with("site") && said.ends_with("/run/site\ncode 0\n"), "{said}");
}
