//! The daemon is killed: behind every operation, and at any moment under load.

use crate::daemon::script;

/// What belongs to somebody else and nobody may touch: links, addresses, routes, rules, tables of nftables and kernel
/// parameters, in a namespace and on the host; and a bridge that is declared, too, as somebody had made it before.
const FOREIGN: &str = r#"
theirs() {
  "$@" ip link add theirs type bridge; "$@" ip link set theirs up; "$@" ip address add 10.200.0.1/24 dev theirs
  "$@" ip route add 10.201.0.0/16 via 10.200.0.2; "$@" ip rule add from 10.202.0.0/16 lookup 202
  "$@" nft add table inet theirs; "$@" nft add chain inet theirs input '{ type filter hook input priority 0; }'
  "$@" nft add rule inet theirs input tcp dport 9 drop; "$@" sysctl -qw net.ipv4.conf.theirs.forwarding=1
}
ip netns add foreign; theirs ip netns exec foreign; theirs env; ip link add taken type bridge; ip link set taken up
seen() {
  "$@" ip -o link | sed 's/<[^>]*>//; s/state [A-Z]*//'; "$@" ip -o -4 address; "$@" ip -4 route show table all; "$@" ip rule
  "$@" nft list ruleset; "$@" sysctl -a 2> /dev/null | grep -E '^net.ipv4.(ip_forward|conf.(all|default|theirs|taken).forwarding)'
}
foreign() { seen ip netns exec foreign; seen env; }
untouched() { foreign > /run/foreign.now; diff /run/foreign /run/foreign.now || { echo "$1: touched"; exit 1; }; }
bare() { test "$(ip netns | cut -d' ' -f1)" = foreign || { echo "$1: left"; ip netns; cat /run/log*; exit 1; }; }
all_there() { $program status > /run/status; grep -q "^$1 items: $1 CONFIGURED" /run/status || { echo "$2:"; cat /run/log* /run/status; exit 1; }; }
foreign > /run/foreign; grep -q 'tcp dport 9 drop' /run/foreign; grep -q '10.202.0.0/16 lookup 202' /run/foreign

# Starts an agent that kills itself behind so many operations.
start_mortal() { export KILTER_DIE_AFTER=$1; start /run/log1; unset KILTER_DIE_AFTER; }
# Whether it has killed itself.
killed() {
  until_true "! grep -q '^State:.[^Z]' /proc/$agent/status 2> /dev/null"
  wait $agent 2> /dev/null; test $? = 137 || { echo "$1: not killed"; cat /run/log1; exit 1; }
}
# A kernel that is busy with the namespaces of others may take its time.
printf '[driver]\nop-deadline = "10m"\nretrieve-deadline = "10m"\n' >> /run/kilter.toml
"#;

#[test]
fn killed_behind_every_operation_of_the_lab_it_converges_and_leaves_nothing_behind() {
    let said = script(&format!(
        "{FOREIGN}
         cp examples/lab/*.yaml /run/site/; printf 'kind: bridge\\nname: taken\\n' > /run/site/taken.yaml; n=1
         while :; do
           start_mortal $n
           until_true \"grep -qs ^ready /run/log1 || ! grep -q '^State:.[^Z]' /proc/$agent/status 2> /dev/null\"
           if grep -qs ^ready /run/log1; then kill_it; break; fi
           killed $n; begin /run/log2; all_there 19 $n; kill_it
           begin /run/log3 --clean-up; grep -v ^ready /run/log3
           kill -TERM $agent; wait $agent || echo \"$n: ended with $?\"
           untouched $n; bare $n; rm -r /run/state; mkdir /run/state; n=$((n+1))
         done
         made=$(sed -n 's/.*: \\([0-9]*\\) operations in.*/\\1/p' /run/log1)
         if [ $n = $((made+1)) ]; then echo \"behind every operation\"; else echo \"$n of $made\"; fi"
    ));
    assert_eq!(said, "behind every operation\n");
}

#[test]
fn killed_behind_every_operation_of_an_apply_nothing_of_it_is_left() {
    let said = script(&format!(
        "{FOREIGN}
         n=1; while :; do
           start_mortal $n; until_true 'grep -qs ^ready /run/log1'
           if $program apply -f examples/lab > /run/out 2>&1; then break; fi
           killed $n; begin /run/log2; bare $n; untouched $n; kill_it; rm -r /run/state; mkdir /run/state; n=$((n+1))
         done
         all_there 18 last; made=$(sed -n 's/^txn .* applied: \\([0-9]*\\) operations in.*/\\1/p' /run/out)
         if [ $n = $((made+1)) ]; then echo \"behind every operation\"; else echo \"$n of $made\"; fi; kill_it"
    ));
    assert_eq!(said, "behind every operation\n");
}

#[test]
fn killed_behind_every_operation_of_a_way_back_it_waits_again_and_goes_back_in_the_end() {
    let said = script(&format!(
        "{FOREIGN}
         begin /run/log0; $program apply -f examples/lab --confirm 1h > /dev/null; kill_it
         n=1; while :; do
           start_mortal $n; until_true 'grep -qs ^ready /run/log1'
           if $program confirm --cancel > /run/out 2>&1; then break; fi
           killed $n; begin /run/log2; $program wait > /dev/null; all_there 18 $n; untouched $n
           $program confirm --show | grep -q 'unless it is confirmed' || echo \"$n: nothing waits\"
           kill_it; n=$((n+1))
         done
         bare last; made=$(sed -n 's/^txn .* applied: \\([0-9]*\\) operations in.*/\\1/p' /run/out)
         if [ $n = $((made+1)) ]; then echo \"behind every operation\"; else echo \"$n of $made\"; fi; kill_it
         begin /run/log3; bare restarted; $program confirm --show; end"
    ));
    assert_eq!(said, "behind every operation\nnothing waits for a confirmation\ncode 0\n");
}

#[test]
fn killed_behind_every_operation_of_a_change_that_is_reverted_nothing_of_it_is_left() {
    let said = script(&format!(
        "{FOREIGN}
         printf 'kind: sysctl\\nname: net.ipv4.ip_forward\\nnetns: switch\\nvalue: banana\\n' > /run/wrong
         begin /run/log0; netns stays > /run/stays; $program apply -f /run/stays --source other > /dev/null; kill_it
         n=1; while :; do
           start_mortal $n; until_true 'grep -qs ^ready /run/log1'
           code=0; $program apply -f examples/lab/switch.yaml /run/wrong > /run/out 2>&1 || code=$?
           # Nobody answers any more.
           if [ $code = 9 ]; then killed $n; else break; fi
           begin /run/log2; ip netns | cut -d' ' -f1 | sort | xargs | grep -qx 'foreign stays' || {{ echo \"$n: left\"; ip netns; }}
           untouched $n; kill_it; n=$((n+1))
         done
         echo \"code $code\"; ip netns | cut -d' ' -f1 | sort | xargs; test $n -gt 4 && echo behind several; kill_it"
    ));
    assert_eq!(said, "code 5\nforeign stays\nbehind several\n");
}

/// How often the daemon is killed at random, unless the environment says otherwise.
fn kills() -> String {
    std::env::var("KILTER_KILLS").unwrap_or_else(|_| "200".to_owned())
}

#[test]
fn killed_at_random_under_load_it_keeps_what_it_acknowledged() {
    let kills = kills();
    let said = script(&format!(
        "{FOREIGN}
         random() {{ od -An -N2 -tu2 /dev/urandom | tr -d ' '; }}
         client() {{
           while test ! -e /run/enough; do
             i=$(cat /run/tried); i=$((i+1)); echo $i > /run/tried; netns n$i > /run/told
             $program apply --prune -f /run/told > /run/answer 2>&1 && echo $i > /run/acknowledged.new \\
               && mv /run/acknowledged.new /run/acknowledged
           done
         }}
         echo 0 > /run/tried; echo 0 > /run/acknowledged; killed=0; begin /run/log0
         while [ $killed -lt {kills} ]; do
           before=$(cat /run/acknowledged); rm -f /run/enough; client & client=$!
           until_true \"test \\$(cat /run/acknowledged) -gt $before\"
           # A change takes some tens of milliseconds: this is anywhere within the next few.
           sleep 0.$(printf %03d $(($(random) % 200)))
           : > /run/enough; kill_it; wait $client; killed=$((killed+1))
           begin /run/log1
           told=$(cat /run/acknowledged); tried=$(cat /run/tried); there=$(ip netns | cut -d' ' -f1 | grep -v foreign | xargs)
           test \"$there\" = n$told || test \"$there\" = n$tried \\
             || {{ echo \"kill $killed: n$told is acknowledged, n$tried was tried, there is: $there\"; cat /run/log1; }}
           untouched $killed
         done
         end; echo \"killed $killed times\""
    ));
    assert_eq!(said, format!("code 0\nkilled {kills} times\n"));
}
