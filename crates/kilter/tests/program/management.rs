//! A change that cuts the way to the machine: whoever manages it is on the other side of a link.

use crate::daemon::script;

/// Somebody manages the machine from another namespace, over a link whose near end has the address that is declared.
const MANAGED: &str = r#"
ip netns add ops; ip link add mgmt0 type veth peer name eth0 netns ops
ip -n ops address add 10.9.0.2/24 dev eth0; ip -n ops link set eth0 up
printf '[telemetry.metrics]\nlisten = "0.0.0.0:9157"\n' >> /run/kilter.toml
near() { printf 'kind: existing\nname: mgmt0\nstate: up\naddresses: [%s/24]\n' $1; }
near 10.9.0.1 > /run/good; near 10.99.0.1 > /run/cut
reaches() { ip netns exec ops curl -s --max-time 1 http://10.9.0.1:9157/metrics | grep -q ^kilter_settled; }
path() { if reaches; then echo reachable; else echo cut off; fi; }
until_reached() { end=$(($(date +%s) + 180)); until reaches; do test $(date +%s) -lt $end || { echo 'never back'; cat /run/log*; exit 1; }; sleep 0.1; done; }
until_later() { due=$(($(date +%s) + $1)); until_true "test \$(date +%s) -ge $due"; }
cut_off() { $program apply -f /run/cut --source machine --confirm 1h > /dev/null; path; }
begin /run/log1; $program apply -f /run/good --source machine > /dev/null; until_reached; path
"#;

#[test]
fn a_way_that_was_cut_is_back_when_the_time_is_up() {
    let said = script(&format!(
        "{MANAGED}
         cut_off; $program confirm --extend 1s > /dev/null; until_reached; path; end"
    ));
    assert_eq!(said, "reachable\ncut off\nreachable\ncode 0\n");
}

#[test]
fn a_way_that_was_cut_is_back_although_the_agent_was_killed_before_the_deadline() {
    let said = script(&format!(
        "{MANAGED}
         cut_off; $program confirm --show > /run/waits; kill_it; path
         begin /run/log2; path; $program confirm --show | cmp - /run/waits && echo the same deadline
         $program confirm --extend 1s > /dev/null; until_reached; path; end"
    ));
    assert_eq!(said, "reachable\ncut off\ncut off\ncut off\nthe same deadline\nreachable\ncode 0\n");
}

#[test]
fn a_way_that_was_cut_is_back_at_once_if_the_agent_comes_back_after_the_deadline() {
    let said = script(&format!(
        "{MANAGED}
         cut_off; $program confirm --extend 10s > /dev/null; kill_it; until_later 11; path
         begin /run/log2; $program wait > /dev/null; until_reached; path; $program confirm --show; end"
    ));
    assert_eq!(said, "reachable\ncut off\ncut off\nreachable\nnothing waits for a confirmation\ncode 0\n");
}

#[test]
fn probes_over_the_way_take_back_a_change_long_before_its_deadline_and_confirm_a_good_one() {
    let said = script(&format!(
        "{MANAGED}
         $program apply -f /run/cut --source machine --confirm 1h --probe ping:10.9.0.2 > /dev/null; path
         until_reached; path
         $program apply -f /run/good --source machine --prune --confirm 1h --probe ping:10.9.0.2 > /dev/null
         until_true \"$program confirm --show | grep -q '^nothing waits'\"; path; end"
    ));
    assert_eq!(said, "reachable\ncut off\nreachable\nreachable\ncode 0\n");
}

#[test]
fn a_change_that_was_confirmed_stays_past_its_deadline_and_over_a_crash() {
    let said = script(&format!(
        "{MANAGED}
         cut_off; $program confirm --extend 10s > /dev/null; $program confirm > /dev/null; until_later 11; path
         kill_it; begin /run/log2; $program wait > /dev/null; path; ip -o address show mgmt0 | grep -o 10.99.0.1; end"
    ));
    assert_eq!(said, "reachable\ncut off\ncut off\ncut off\n10.99.0.1\ncode 0\n");
}

#[test]
fn a_full_disk_does_not_keep_the_way_cut() {
    let said = script(&format!(
        "mount -t tmpfs -o size=32m state /run/state
         {MANAGED}
         cut_off; $program confirm --extend 20s > /dev/null; dd if=/dev/zero of=/run/state/ballast bs=4k 2> /dev/null; path
         until_reached; path; until_true \"$program confirm --show | grep -q '^nothing waits'\"
         rm /run/state/ballast; until_true \"! $program status --agent | grep -q ^trouble\"
         kill_it; begin /run/log2; path; $program confirm --show; end"
    ));
    let told =
        "reachable\ncut off\ncut off\nreachable\nreachable\nnothing waits for a confirmation\ncode 0\n";
    assert_eq!(said, told);
}

#[test]
fn on_a_full_disk_a_change_is_taken_back_and_recorded_when_there_is_room_and_kept_only_if_that_is_durable() {
    let said = script(&format!(
        "mount -t tmpfs -o size=32m state /run/state
         {MANAGED}
         # The last page of the records may have room for a few.
         fill() {{ dd if=/dev/zero of=/run/state/ballast bs=4k 2> /dev/null || true; until ! $program pause none > /dev/null 2>&1; do :; done; }}
         cut_off; fill; $program confirm --cancel > /run/said 2>&1 || grep -o 'it was carried out' /run/said > /dev/null; path
         grep -c CancelConfirmation /run/state/audit.log || true
         rm /run/state/ballast; until_true 'test $(grep -c CancelConfirmation /run/state/audit.log) = 2'
         grep -o 'not recorded yet: CancelConfirmation of user 0' /run/log1 | sort -u
         until_true \"! $program status --agent | grep -q ^trouble\"
         cut_off; fill; waits=no; $program confirm > /dev/null 2>&1 || waits=yes
         kill_it; rm /run/state/ballast; begin /run/log2; path
         if $program confirm --show | grep -q '^nothing waits'; then now=no; else now=yes; fi
         test $waits = $now && echo as it was told; end"
    ));
    let told = "reachable\ncut off\nreachable\n0\nnot recorded yet: CancelConfirmation of user 0\n\
                cut off\ncut off\nas it was told\ncode 0\n";
    assert_eq!(said, told);
}
