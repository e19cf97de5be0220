//! The daemon as the service manager runs it: killed, out of room, told to end.

use std::os::unix::net::UnixDatagram;
use std::process::Command;
use std::time::Instant;

use crate::outcomes::in_a_network;
use crate::program::PATIENCE;

/// Functions of the scripts: `start LOG OPTION…` starts an agent, `begin` waits until it is ready too, and neither takes what
/// an earlier one said in the same file for its words; `kill_it` and `end` end it,
/// `until_true` waits for a condition with a deadline, `txn_of FILE` is the transaction that an `apply` told of.
const FUNCTIONS: &str = r#"
mkdir -p /run/site /run/state
agent=; trap 'test -z "$agent" || kill -9 $agent 2> /dev/null || true' EXIT
printf 'state-directory = "/run/state"\n[[directory]]\nname = "site"\npath = "/run/site"\n' > /run/kilter.toml
threads() { for one in /proc/$agent/task/*; do echo "$(cat $one/comm): $(grep State $one/status) in $(cat $one/wchan)"; done; }
until_true() { timeout 180 sh -c "until $1; do sleep 0.02; done" || { echo "too late: $1"; cat /run/log*; threads; exit 1; }; }
start() { log=$1; shift; rm -f $log; $program agent "$@" --settings /run/kilter.toml > $log 2>&1 & agent=$!; }
begin() { start "$@"; until_true "grep -qs ^ready $log"; }
kill_it() { kill -9 $agent; wait $agent 2> /dev/null || true; }
end() { kill -TERM $agent; wait $agent; echo "code $?"; }
txn_of() { sed -n 's/^txn #\([0-9]*\) applied.*/\1/p' $1; }
netns() { printf 'kind: netns\nname: %s\n' $1; }
"#;

pub(crate) fn script(lines: &str) -> String {
    in_a_network(&format!("{FUNCTIONS}\n{lines}"))
}

#[test]
fn an_agent_that_is_killed_comes_back_and_writes_nothing() {
    let said = script(
        "cp examples/lab/*.yaml /run/site/
         begin /run/log1; ip -n router -o link | cut -d' ' -f1,2 > /run/before
         kill_it; begin /run/log2; cat /run/log2
         ip -n router -o link | cut -d' ' -f1,2 | cmp - /run/before && echo same links
         end; ip netns | wc -l",
    );
    assert_eq!(
        said, "ready: 18 items are declared\nsame links\ncode 0\n4\n",
        "not one operation after the restart"
    );
}

#[test]
fn what_a_directory_dropped_while_the_agent_was_away_is_removed_and_the_rest_is_left_alone() {
    let said = script(
        "netns kept > /run/site/kept.yaml; netns dropped > /run/site/dropped.yaml
         begin /run/log1; kill_it
         rm /run/site/dropped.yaml; begin /run/log2; end; ip netns
         echo 'the state directory is lost'
         rm -r /run/state; rm /run/site/kept.yaml; netns other > /run/site/other.yaml
         begin /run/log3; end; ip netns | sort",
    );
    assert_eq!(said, "code 0\nkept\nthe state directory is lost\ncode 0\nkept\nother\n");
}

#[test]
fn a_directory_that_is_broken_at_the_start_declares_what_it_declared() {
    let said = script(
        "netns kept > /run/site/kept.yaml; begin /run/log1; kill_it
         ip netns delete kept; echo 'kind: netnss' > /run/site/kept.yaml
         begin /run/log2; grep -c 'cannot be used' /run/log2; ip netns; end",
    );
    assert_eq!(said, "1\nkept\ncode 0\n");
}

#[test]
fn a_full_disk_refuses_a_change_and_lets_it_in_when_there_is_room() {
    let said = script(
        "mount -t tmpfs -o size=32m state /run/state; netns one > /run/site/one.yaml
         begin /run/log1
         dd if=/dev/zero of=/run/state/ballast bs=4k 2> /dev/null
         # More than the pages hold that the file of the store has already.
         i=0; while [ $i -lt 4000 ]; do
           printf -- '---\\nkind: route\\ndestination: 10.77.%s.%s/32\\ntype: blackhole\\n' $((i/250)) $((i%250)); i=$((i+1))
         done > /run/many
         mv /run/many /run/site/two.yaml
         until_true 'grep -q refused /run/log1'; grep -o 'nothing was changed.*no room' /run/log1 | head -1; ip netns; ip route show type blackhole | wc -l
         rm /run/site/two.yaml /run/state/ballast; netns two > /run/site/two.yaml
         until_true 'test \"$(ip netns | sort | xargs)\" = \"one two\"'; end",
    );
    assert_eq!(
        said,
        "nothing was changed, because it could not be kept: could not write the store: there is no room\none\n0\ncode 0\n"
    );
}

#[test]
fn a_read_only_state_directory_is_a_clear_error_and_nothing_is_lost() {
    let said = script(
        "mount -t tmpfs state /run/state; netns one > /run/site/one.yaml; begin /run/log1
         netns two > /run/two; $program apply -f /run/two > /dev/null; kill_it
         mount -o remount,ro /run/state; netns three > /run/site/three.yaml
         $program agent --settings /run/kilter.toml 2>&1; echo \"code $?\"; ip netns | sort | xargs
         mount -o remount,rw /run/state; begin /run/log2; ip netns | sort | xargs; $program get sources; end",
    );
    let (refused, later) = said.split_once("code 7\n").unwrap();
    assert!(refused.contains("failed to open the state directory `/run/state`"), "{said}");
    assert!(refused.contains("read-only"), "{said}");
    let sources = "SOURCE  ITEMS  UNHEARD  DIRECTORY\nsite    2      0        /run/site\ncli     1      0\n";
    assert_eq!(later, format!("one two\none three two\n{sources}code 0\n"));
}

#[test]
fn what_is_not_needed_of_root_is_given_up_also_by_the_unit_and_after_a_handover() {
    let said = script(
        "held() { sed -n 's/^Cap\\(Prm\\|Eff\\|Bnd\\|Amb\\):.//p' /proc/$agent/status | sort -u | xargs; }
         begin /run/log1; held; kill -HUP $agent; until_true 'test $(grep -c ^ready /run/log1) = 2'; held; end",
    );
    // CAP_NET_ADMIN, CAP_NET_RAW and CAP_SYS_ADMIN; none is passed on.
    let held = "0000000000000000 0000000000203000\n";
    assert_eq!(said, format!("{held}{held}code 0\n"));
    let unit = include_str!("../../../../packaging/kilter.service");
    assert!(unit.contains("\nCapabilityBoundingSet=CAP_NET_ADMIN CAP_SYS_ADMIN CAP_NET_RAW\n"), "{unit}");
}

#[test]
fn an_agent_that_cleans_up_removes_what_is_declared_and_knows_it_the_next_time() {
    let said = script(
        "netns one > /run/site/one.yaml; printf 'clean-up = true\\n%s\\n' \"$(cat /run/kilter.toml)\" > /run/kilter.toml
         begin /run/log1; ip netns; end; ip netns; begin /run/log2; ip netns; kill_it",
    );
    assert_eq!(said, "one\ncode 0\none\n");
}

#[test]
fn killed_at_any_moment_the_network_converges() {
    let said = script(
        "i=0; while [ $i -lt 12 ]; do
           rm -f /run/site/*; netns a$i > /run/site/a.yaml; netns b$i > /run/site/b.yaml; netns stays > /run/site/s.yaml
           $program agent --settings /run/kilter.toml > /run/log 2>&1 & agent=$!
           n=0; while [ $n -lt $((i * 40)) ]; do n=$((n+1)); done
           kill -9 $agent; wait $agent 2> /dev/null; i=$((i+1))
         done
         begin /run/log2; until_true 'ip netns | grep -q a11'; ip netns | sort; end",
    );
    assert_eq!(said, "a11\nb11\nstays\ncode 0\n");
}

#[test]
fn wrong_settings_are_told_with_their_place() {
    let said = script(
        "printf 'sockt = \"/run/s\"\\n' > /run/kilter.toml
         $program agent --settings /run/kilter.toml 2>&1; echo \"code $?\"",
    );
    assert!(said.contains("/run/kilter.toml:1:1: unknown field `sockt`"), "{said}");
    assert!(said.contains("did you mean `socket`?"), "{said}");
}

#[test]
fn the_service_manager_is_told_how_the_agent_stands() {
    let folder = std::env::temp_dir().join(format!("kilter-notify-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let socket = UnixDatagram::bind(folder.join("notify")).unwrap();
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    let settings = folder.join("kilter.toml");
    std::fs::write(&settings, format!("state-directory = \"{}\"\n", folder.join("state").display())).unwrap();
    let mut agent = Command::new("unshare")
        .args(["--user", "--map-root-user", "--net", "--mount", env!("CARGO_BIN_EXE_kilter"), "agent"])
        .arg("--settings")
        .arg(&settings)
        .arg("--socket")
        .arg(folder.join("agent.sock"))
        .env("NOTIFY_SOCKET", folder.join("notify"))
        .env("WATCHDOG_USEC", "200000")
        .spawn()
        .unwrap();
    let deadline = Instant::now() + PATIENCE;
    let mut heard = String::new();
    let mut buffer = [0; 256];
    while heard.matches("WATCHDOG=1").count() < 3 && Instant::now() < deadline {
        let length = socket.recv(&mut buffer).unwrap();
        heard.push_str(&format!("{}\n", String::from_utf8_lossy(&buffer[..length])));
    }
    let ended = Command::new("kill").arg("-TERM").arg(agent.id().to_string()).status().unwrap();
    assert!(ended.success() && agent.wait().unwrap().success());
    while !heard.contains("STOPPING=1") {
        let length = socket.recv(&mut buffer).unwrap();
        heard.push_str(&format!("{}\n", String::from_utf8_lossy(&buffer[..length])));
    }
    std::fs::remove_dir_all(&folder).unwrap();
    assert!(heard.contains("READY=1") && heard.matches("WATCHDOG=1").count() >= 3, "{heard}");
    assert!(heard.contains("STOPPING=1"), "{heard}");
}

#[test]
fn a_parameter_that_was_changed_before_a_crash_is_given_back_after_it() {
    let said = script(
        "forwards() { cat /proc/sys/net/ipv4/ip_forward; }
         forwards; printf 'kind: sysctl\nname: net.ipv4.ip_forward\nvalue: 1\n' > /run/site/forward.yaml
         printf 'kind: netns\nname: stays\n' > /run/site/stays.yaml; begin /run/log1; forwards
         kill_it; rm /run/site/forward.yaml; begin /run/log2; until_true 'grep -q ^0 /proc/sys/net/ipv4/ip_forward'
         forwards; end",
    );
    assert_eq!(said, "0\n1\n0\ncode 0\n");
}

#[test]
fn the_daemon_answers_and_what_it_was_told_outlives_it() {
    let said = script(
        "begin /run/log1
         netns told > /run/told; kilter apply -f /run/told > /run/out; tail -2 /run/out | cut -d: -f1
         kill_it; begin /run/log2
         kilter get sources; kilter explain linux/netns/told | grep 'declared by'
         kilter status; end; kilter status | tail -1",
    );
    let lines: Vec<&str> = said.lines().collect();
    assert!(said.contains("applied\ncode 0\n"), "{said}");
    assert!(lines.iter().any(|line| line.starts_with("cli     1      0")), "{said}");
    assert!(said.contains("declared by `cli` at /run/told:1:7, in txn #"), "{said}");
    assert!(said.contains("1 item: 1 CONFIGURED\ncode 0\n"), "{said}");
    assert_eq!(lines.last(), Some(&"code 9"), "{said}");
}

#[test]
fn what_happened_before_a_restart_can_be_asked_about() {
    let said = script(
        "begin /run/log1; netns first > /run/first; netns second > /run/second
         kilter apply -f /run/first > /run/out; kilter apply -f /run/second > /run/out
         then=$(txn_of /run/out)
         $program source remove cli --yes > /run/out
         end > /run/out; begin /run/log2
         $program txn show $then | grep -c 'create .*linux/netns/second'
         $program timeline linux/netns/second | grep -c create
         $program events list --last 0 | grep -c 'Declared Change .cli.'
         echo then; $program graph --at $then | grep -o 'linux/netns/[a-z]*'
         echo now; $program graph | grep -o 'linux/netns/[a-z]*'
         echo between; $program diff --from $then | grep -o 'linux/netns/[a-z]*'
         $program graph --at 9999; echo \"code $?\"; end",
    );
    let lines: Vec<&str> = said.lines().collect();
    let (first, second) = ("linux/netns/first", "linux/netns/second");
    assert_eq!(lines[..3], ["1", "1", "3"], "{said}");
    assert_eq!(lines[3..10], ["then", first, second, "now", "between", first, second], "{said}");
    assert_eq!(lines[lines.len() - 2..], ["code 10", "code 0"], "{said}");
}

#[test]
fn going_back_restores_what_every_source_declared_also_after_a_restart() {
    let said = script(
        "begin /run/log1; netns one > /run/one; netns two > /run/two; netns three > /run/three
         kilter apply -f /run/one --source alpha > /run/out; kilter apply -f /run/two --source beta > /run/out
         then=$(txn_of /run/out)
         $program source remove alpha --yes > /run/out; $program apply -f /run/three --source beta > /run/out
         kill_it; begin /run/log2; ip netns | sort | xargs
         $program revert $then --plan | grep -o '\\(create\\|delete\\) *linux/netns/[a-z]*' | sort | tr -s ' '
         $program revert $then --yes > /run/out; echo \"code $?\"; ip netns | sort | xargs
         $program get sources | grep -o '^[a-z][a-z]*  *[0-9]' | tr -s ' '
         $program revert 9999 --yes 2>&1; echo \"code $?\"; end",
    );
    let expected = "three two\ncreate linux/netns/one\ndelete linux/netns/three\ncode 0\none two\n";
    assert!(said.starts_with(expected), "{said}");
    assert!(said.contains("alpha 1\n") && said.contains("beta 1\n"), "{said}");
    assert!(said.contains("transaction #9999 is not remembered"), "{said}");
}

#[test]
fn an_agent_that_has_nothing_to_do_is_small() {
    let said = script(
        "begin /run/log1; sed -n 's/^RssAnon:[^0-9]*\\([0-9]*\\) kB/\\1/p' /proc/$agent/status; kill_it",
    );
    let kilobytes: u64 = said.trim().parse().unwrap();
    assert!(kilobytes < 16 << 10, "{kilobytes} kB of its own");
}

#[test]
fn a_namespace_costs_little_memory() {
    let said = script(
        "memory() { awk '/^RssAnon/ { print $2 }' /proc/$agent/status; }
         netns one > /run/site/one.yaml; begin /run/log1; before=$(memory)
         i=0; while [ $i -lt 200 ]; do netns n$i; echo ---; i=$((i+1)); done > /run/many
         mv /run/many /run/site/many.yaml
         until_true \"grep -q ': 200 operations' /run/log1\"; kilter wait > /dev/null; kilter resync > /dev/null
         each=$((($(memory) - before) / 200)); test $each -lt 400 && echo little || echo \"$each KiB each\"; end",
    );
    assert_eq!(said, "little\ncode 0\n");
}

#[test]
fn logs_for_programs_are_one_object_a_line() {
    let said = script(
        "printf '[telemetry.logs]\nlevel = \"debug\"\nform = \"json\"\n' >> /run/kilter.toml; netns one > /run/site/one.yaml
         $program agent --settings /run/kilter.toml > /run/log1 2> /run/errors & agent=$!
         until_true 'grep -qs ^ready /run/log1'; netns two > /run/two; $program apply -f /run/two > /dev/null; end
         python3 -c 'import json, sys
lines = [json.loads(line) for line in sys.stdin]
assert all(isinstance(line, dict) and line[\"level\"] and line[\"timestamp\"] for line in lines), lines
print(len(lines) > 3, any(\"txn\" in json.dumps(line) for line in lines))' < /run/errors",
    );
    assert_eq!(said, "code 0\nTrue True\n");
}

#[test]
fn a_directory_that_is_taken_out_of_the_settings_is_told_and_can_be_removed() {
    let said = script(
        "netns one > /run/site/one.yaml; begin /run/log1; kill_it
         printf 'state-directory = \"/run/state\"\n' > /run/kilter.toml; begin /run/log2; grep warning /run/log2; ip netns
         $program source remove site --yes > /dev/null; ip netns; kill_it; begin /run/log3; grep -c warning /run/log3; ip netns; end",
    );
    let warning = "warning: `site` is no directory of the settings any more: what it declared stays, \
                   hint: `kilter source remove site` takes it back\n";
    assert_eq!(said, format!("{warning}one\n0\ncode 0\n"));
}

#[test]
fn a_full_disk_refuses_an_apply_in_words_and_nothing_is_done() {
    let said = script(
        "mount -t tmpfs -o size=32m state /run/state; begin /run/log1
         dd if=/dev/zero of=/run/state/ballast bs=4k 2> /dev/null
         netns one > /run/one; $program apply -f /run/one 2>&1; echo \"code $?\"; ip netns; $program get sources | grep -c ^cli
         rm /run/state/ballast; $program apply -f /run/one > /dev/null; echo \"code $?\"
         kill_it; begin /run/log2; ip netns; end",
    );
    let (refused, later) = said.split_once("code 7\n").unwrap_or_else(|| panic!("{said}"));
    assert!(refused.starts_with("error: ") && refused.contains("No space left on device"), "{said}");
    assert_eq!(later, "0\ncode 0\none\ncode 0\n");
}

#[test]
fn whoever_waits_for_too_short_a_time_is_told_that_it_is_not_settled() {
    let said = script(
        "printf '[drift]\nbackoff = \"10m\"\nbackoff-cap = \"10m\"\n' >> /run/kilter.toml
         printf 'kind: bridge\\nname: lan\\n' > /run/site/one.yaml; begin /run/log1
         ip link delete lan; until_true 'ip link show lan > /dev/null 2>&1'; $program wait > /dev/null
         ip link delete lan; until_true \"$program wait --timeout 1ms | grep -q '^not settled in time'\"
         code=0; $program wait --timeout 1ms > /dev/null || code=$?; echo \"code $code\"; end",
    );
    assert_eq!(said, "code 3\ncode 0\n");
}
