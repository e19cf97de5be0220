//! The daemon is killed: behind every operation, and at any moment under load.

use crate::daemon::script;

/// Something of somebody else, which nobody may touch: a namespace with a bridge, and a bridge on the host.
const FOREIGN: &str = "
ip netns add foreign; ip -n foreign link add theirs type bridge; ip link add mine type bridge
foreign() { ip -n foreign -o link show theirs; ip -o link show mine; }
foreign > /run/foreign
";

#[test]
fn killed_behind_every_operation_of_the_lab_it_converges_and_leaves_nothing_behind() {
    let said = script(&format!(
        "{FOREIGN}
         cp examples/lab/*.yaml /run/site/; n=1
         while :; do
           KILTER_DIE_AFTER=$n $program agent --settings /run/kilter.toml > /run/log1 2>&1 & agent=$!
           until_true \"grep -q ^ready /run/log1 || ! grep -q '^State:.[^Z]' /proc/$agent/status 2> /dev/null\"
           if grep -q ^ready /run/log1; then kill_it; break; fi
           wait $agent 2> /dev/null; test $? = 137 || {{ echo \"$n: not killed\"; cat /run/log1; exit 1; }}
           begin /run/log2
           kilter status > /run/status; grep -q '^18 items: 18 CONFIGURED' /run/status || {{ echo \"$n:\"; cat /run/log2 /run/status; exit 1; }}
           kill_it
           $program agent --clean-up --settings /run/kilter.toml > /run/log3 2>&1 & agent=$!
           until_true 'grep -q ^ready /run/log3'; grep -v ^ready /run/log3
           kill -TERM $agent; wait $agent
           foreign | cmp - /run/foreign; test \"$(ip netns | cut -d' ' -f1)\" = foreign || {{ echo \"$n: left\"; ip netns; }}
           rm -r /run/state; mkdir /run/state; n=$((n+1))
         done
         made=$(sed -n 's/.*: \\([0-9]*\\) operations in.*/\\1/p' /run/log1)
         if [ $n = $((made+1)) ]; then echo \"behind every operation\"; else echo \"$n of $made\"; fi"
    ));
    assert_eq!(said, "behind every operation\n");
}

/// How often the daemon is killed at random: as the environment says, or so that a test run is not held up.
fn kills() -> String {
    std::env::var("KILTER_KILLS").unwrap_or_else(|_| "40".to_owned())
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
           sleep 0.$(($(random) % 900 + 100))
           : > /run/enough; kill_it; wait $client; killed=$((killed+1))
           begin /run/log1
           told=$(cat /run/acknowledged); tried=$(cat /run/tried); there=$(ip netns | cut -d' ' -f1 | grep -v foreign | xargs)
           test \"$there\" = n$told || test \"$there\" = n$tried \\
             || {{ echo \"kill $killed: n$told is acknowledged, n$tried was tried, there is: $there\"; cat /run/log1; }}
           foreign | cmp - /run/foreign
         done
         end; echo \"killed $killed times\""
    ));
    assert_eq!(said, format!("code 0\nkilled {kills} times\n"));
}
