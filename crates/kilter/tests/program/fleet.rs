//! Delivery to agents in networks of their own, out of a real etcd, under faults: a transport that loses every tenth message,
//! members of the store that die and stand still, a past that is compacted.

use crate::cluster::script;
use crate::joint::FUNCTIONS;

#[test]
fn twenty_agents_hold_the_same_under_loss_and_take_back_together() {
    let said = script(&format!(
        r#"{FUNCTIONS}
           begin_store
           carried() {{
             (echo '[cluster]'; store; printf '[cluster.distributor]\nname = "%s"\nadvertise = "zmq://10.9.0.1:%s"\n' $1 $2
              pubsub '[]' $2 $1; printf 'publisher_transport = "zmq"\nlose-percent = 10\n') > /run/$1.toml
             begin $1 '^ready' $program distributor --settings /run/$1.toml
           }}
           carried d1 8866; carried d2 8876
           # Each node hosts five of fifty tenants, so that each tenant is on two nodes.
           for number in $(seq 1 20); do
             node n$number $((number + 20)); tenants=; for more in 0 1 2 3 4; do tenants="$tenants, \"t$(((number * 5 + more) % 50))\""; done
             (settings n$number; echo "tenants = [${{tenants#, }}]"; store; pubsub '[]' 1 n$number; counted) > /run/n$number.toml
             ip netns exec n$number $program agent --settings /run/n$number.toml > /run/n$number.log 2>&1 & echo $! > /run/n$number.pid
           done
           for number in $(seq 1 20); do until_true "grep -q ^ready /run/n$number.log"; done
           # Two hundred routes for each tenant: ten thousand items.
           for tenant in $(seq 0 49); do
             for host in $(seq 1 200); do printf -- '---\nkind: route\ndestination: 10.77.%s.%s/32\ntype: blackhole\n' $tenant $host; done > /run/t$tenant.yaml
             $program apply --to tenant:t$tenant -f /run/t$tenant.yaml --settings /run/fleet.toml > /dev/null
             if test $tenant = 25; then kill_it d1; fi
           done
           began=$(date +%s); well 20; test $(($(date +%s) - began)) -le 90 && echo in time
           # Each node follows seven topics, and gets each of them whole once; what is fetched is a part of what there is.
           total() {{ for number in $(seq 1 20); do number n$number "cluster_delivery_total{{what=\"$1\"}}"; done | awk '{{ sum += $1 }} END {{ print sum }}'; }}
           echo fetched $(total fetched-changes), snapshots $(total snapshots), deltas $(total deltas), gaps $(total gaps) > /run/totals
           test $(total deltas) = 0 && test $(total snapshots) -le 140 && test $(total gaps) -gt 0 && test $(total fetched-changes) -lt 16000 && echo as was lost || cat /run/totals
           for number in $(seq 1 20); do ip -n n$number route show type blackhole | grep -c 10.77; done | sort | uniq -c | xargs
           for number in $(seq 1 20); do if test $number != 7; then answers n$number; fi; done
           together all lan5 --confirm 120s --probe ping:10.8.0.1 | tail -n 3
           for number in $(seq 1 20); do has n$number lan5 && echo n$number has it; done; true"#
    ));
    let said: Vec<&str> = said.lines().collect();
    assert_eq!(
        said,
        [
            "in time",
            "as was lost",
            "20 1000",
            "halted: n7: ping:10.8.0.1 does not pass",
            "taken back: 20 nodes are as before",
            "exit 5"
        ]
    );
}

#[test]
fn a_member_of_etcd_killed_and_its_leader_paused_under_writes_lose_nothing() {
    let said = script(
        r#"store() { printf '[cluster.store]\nendpoints = ["http://10.9.0.1:2371", "http://10.9.0.1:2372", "http://10.9.0.1:2373"]\n'; }
           (echo '[cluster]'; store; pubsub '[]' 1 fleet) > /run/fleet.toml
           peer() { echo http://10.9.0.1:238$1; }
           begin_member() {
             etcd --name m$1 --data-dir /run/etcd$1 --listen-client-urls http://10.9.0.1:237$1 --advertise-client-urls http://10.9.0.1:237$1 \
               --listen-peer-urls $(peer $1) --initial-advertise-peer-urls $(peer $1) --log-level error \
               --initial-cluster m1=$(peer 1),m2=$(peer 2),m3=$(peer 3) > /run/m$1.log 2>&1 & echo $! > /run/m$1.pid
           }
           asked() { curl -s -m 5 http://10.9.0.1:237$1/v3/maintenance/status -d '{}' | tr , '\n' | sed -n "s/.*\"$2\":\"\([0-9]*\)\".*/\1/p"; }
           leader() { for member in 1 2 3; do if test "$(asked $member member_id)" = "$(asked $member leader)"; then echo $member; return; fi; done; }
           # A write that may or may not have happened is made again.
           write() {
             printf 'kind: route\ndestination: 10.66.0.%s/32\ntype: blackhole\n' $1 > /run/route.yaml
             until_true "$program apply --to all -f /run/route.yaml --settings /run/fleet.toml > /dev/null 2>&1"
           }
           writes() { for number in $(seq $1 $2); do write $number; done; }
           for member in 1 2 3; do begin_member $member; done
           until_true "$program nodes --settings /run/fleet.toml > /dev/null 2>&1"
           begin_distributor d1 8866; begin_distributor d2 8867; member n1 11; member n2 12; listed 2
           writes 1 5; kill_it m1; writes 6 10; begin_member 1; kill_it d1; writes 11 12
           until_true "curl -s -m 5 http://10.9.0.1:2371/health | grep -q true"
           paused=$(leader); kill -STOP $(cat /run/m$paused.pid); writes 13 16; kill -CONT $(cat /run/m$paused.pid); writes 17 20
           well 2
           for node in n1 n2; do ip -n $node route show type blackhole | grep -c 10.66; done"#,
    );
    assert_eq!(said.lines().collect::<Vec<_>>(), ["20", "20"]);
}

#[test]
fn a_compaction_under_a_stopped_agent_and_a_cut_off_distributor_loses_nothing() {
    let said = script(
        r#"begin_store; node d1 30
           (echo '[cluster]'; store; printf '[cluster.distributor]\nname = "d1"\nadvertise = "tcp://10.9.0.30:8866"\n'; pubsub '[]' 8866 d1) > /run/d1.toml
           begin d1 '^ready' ip netns exec d1 $program distributor --settings /run/d1.toml
           for number in 1 2; do
             node n$number 1$number; (settings n$number; store; pubsub '[]' 1 n$number | sed 's/fallback-after.*/fallback = false/') > /run/n$number.toml
             begin_agent n$number
           done
           listed 2; declare all lan1 --wait 120s; links n1 n2
           kill_it n1; ip link set d1 down; kill_it store; begin_store
           declare all lan2; declare n1 lan3; declare all lan4 --prune
           ask() { curl -s http://10.9.0.1:2379/v3/kv/$1 -d "$2"; }
           head=$(ask range '{"key": "AA=="}' | tr , '\n' | sed -n 's/.*"revision":"\([0-9]*\)".*/\1/p'); ask compaction "{\"revision\": $head}" > /dev/null
           ip link set d1 up; until_true 'grep -q "the store was read at revision" /run/d1.log'
           begin_agent n1; until_true 'ip -n n1 link show lan4 > /dev/null 2>&1 && ! ip -n n1 link show lan1 > /dev/null 2>&1'
           listed 2; until_true 'ip -n n2 link show lan4 > /dev/null 2>&1 && ! ip -n n2 link show lan1 > /dev/null 2>&1'; links n1 n2"#,
    );
    let links: Vec<&str> = said.lines().filter(|line| !line.starts_with("declared")).collect();
    assert_eq!(links, ["n1: lan1", "n2: lan1", "n1: lan3 lan4", "n2: lan4"]);
}
