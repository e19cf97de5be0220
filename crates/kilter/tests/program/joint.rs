//! Changes that nodes of a cluster try together: all keep them, or none does.

use crate::cluster::script;

/// Functions beside those of a cluster: `answers NODE...` lets the probe pass on nodes, `together WHO LINK ...` and `rollout WHO
/// LINK ...` declare a link in these ways, and say how that ended.
pub(crate) const FUNCTIONS: &str = r#"
answers() { for node in "$@"; do ip -n $node address add 10.8.0.1/32 dev lo; done; }
fleet() { begin_store; begin_distributor d1 8866; for number in $1; do member n$number 1$number; done; listed $(echo $1 | wc -w); }
joint() { verb=$1; who=$2; name=$3; shift 3; link $name > /run/$name.yaml
  $program $verb --to $who -f /run/$name.yaml --settings /run/fleet.toml "$@" || echo "exit $?"; }
together() { joint apply "$@"; }
rollout() { joint rollout "$@"; }
"#;

fn run(lines: &str) -> Vec<String> {
    let said = script(&format!("{FUNCTIONS}\n{lines}"));
    // What a change is called is new every time, and so is its revision.
    let is_told = |line: &&str| !line.starts_with("joint change") && !line.starts_with("declared");
    let cut = |line: &str| line.split(", declared in").next().unwrap().to_owned();
    said.lines().filter(is_told).map(cut).collect()
}

#[test]
fn a_probe_that_fails_on_one_of_three_nodes_takes_a_change_back_on_all() {
    let said = run(r#"fleet "1 2 3"; answers n1 n3
           together all lan5 --confirm 40s --probe ping:10.8.0.1; links n1 n2 n3
           answers n2; together all lan5 --confirm 40s --probe ping:10.8.0.1; links n1 n2 n3
           $program confirm --show --socket /run/n2.sock; kill_it n2; ip -n n2 link delete lan5; begin_agent n2; links n2
           together all lan6 --confirm 40s --probe cmd:true; links n1"#);
    let expected = [
        "wave 1 of 1: n1 n2 n3",
        "halted: n2: ping:10.8.0.1 does not pass",
        "taken back: 3 nodes are as before",
        "exit 5",
        "n1:",
        "n2:",
        "n3:",
        "wave 1 of 1: n1 n2 n3",
        "kept by 3 nodes",
        "n1: lan5",
        "n2: lan5",
        "n3: lan5",
        "nothing waits for a confirmation",
        "n2: lan5",
        "wave 1 of 1: n1 n2 n3",
    ];
    assert_eq!(said[..expected.len()], expected);
    // Whoever writes the store does not thereby run commands on nodes.
    assert!(said[expected.len()].contains("runs no commands as probes"), "{said:?}");
    assert_eq!(said[said.len() - 2..], ["exit 5", "n1: lan5"]);
}

#[test]
fn a_node_that_is_cut_off_goes_back_by_itself_and_one_that_was_killed_goes_on() {
    // What waits for a link neither passes nor fails.
    let said = run(
        r#"lease=6s; renewal=2s; fleet "1 2 3"; printf 'kind: bridge\nname: lan5\n---\nkind: macvlan\nname: child\nlink: eth9\n' > /run/waits.yaml
           $program apply --to all -f /run/waits.yaml --settings /run/fleet.toml --confirm 30s > /run/lead.log 2>&1 & lead=$!
           for node in n1 n2 n3; do until_true "ip -n $node link show lan5 > /dev/null 2>&1"; done
           kill_it n2; begin_agent n2; links n2; ip link set n3 down
           wait $lead || echo "exit $?"; cat /run/lead.log; links n1 n2
           until_true '! ip -n n3 link show lan5 > /dev/null 2>&1'; links n3
           ip link set n3 up; declare all lan9
           for node in n1 n2 n3; do until_true "ip -n $node link show lan9 > /dev/null 2>&1"; done; links n1 n2 n3"#,
    );
    let expected = ["n2: lan5", "exit 6", "wave 1 of 1: n1 n2 n3"];
    assert_eq!(said[..3], expected, "{said:?}");
    // Whichever is noticed first: the node that was killed said nothing for a while, too.
    assert!(said[3].starts_with("halted: n3 has gone away") || said[3].starts_with("halted: n2"), "{said:?}");
    assert!(said[4].starts_with("taken back: 3 nodes are as before, not told by"), "{said:?}");
    assert!(said[4].ends_with("n3"), "{said:?}");
    assert_eq!(said[5..], ["n1:", "n2:", "n3:", "n1: lan9", "n2: lan9", "n3: lan9"]);
}

#[test]
fn a_rollout_halts_at_the_wave_that_fails_and_goes_back_without_its_leader() {
    let said = run(r#"fleet "1 2 3"; answers n1 n3
           rollout all lan5 --waves 1,2 --soak 1s --confirm 40s --probe ping:10.8.0.1; links n1 n2 n3
           answers n2; rollout all lan5 --waves 2 --soak 0s --confirm 40s --probe ping:10.8.0.1; links n1 n2 n3
           link lan6 > /run/lan6.yaml; $program rollout --to all -f /run/lan6.yaml --settings /run/fleet.toml --soak 1h > /run/lead.log & lead=$!
           until_true 'ip -n n1 link show lan6 > /dev/null 2>&1'; kill -9 $lead
           until_true '! ip -n n1 link show lan6 > /dev/null 2>&1'; links n1 n2 n3"#);
    let links = ["n1: lan5", "n2: lan5", "n3: lan5"];
    let expected: Vec<&str> = ["wave 1 of 3: n1", "wave 2 of 3: n2"]
        .into_iter()
        .chain(["halted: n2: ping:10.8.0.1 does not pass", "taken back: 2 nodes are as before", "exit 5"])
        .chain(["n1:", "n2:", "n3:"])
        .chain(["wave 1 of 2: n1 n2", "wave 2 of 2: n3", "kept by 3 nodes"])
        .chain(links)
        .chain(links)
        .collect();
    assert_eq!(said, expected);
}
