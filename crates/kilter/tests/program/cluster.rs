//! A cluster as its owner runs it: etcd, distributors, and agents in network namespaces of their own; and what becomes of
//! them when one of these is killed.

use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};

use crate::outcomes::in_a_network;

/// Functions of the scripts: `begin_store`, `begin_distributor NAME PORT`, `begin_agent NAME NUMBER [SETTING...]` begin a part
/// and wait until it is ready, `kill_it NAME` kills it, `has NODE LINK` asks for a link, `until_true` waits for a condition,
/// `well COUNT` until so many nodes hold what the store holds, and complain about nothing but the version of that. `$lease` and
/// `counted` as the last settings of a node lets `number NODE METRIC` tell a metric of it. `$lease` and `$renewal` are for tests in which a lease shall run out.
const FUNCTIONS: &str = r#"
trap 'for part in /run/*.pid; do kill -9 $(cat $part) 2> /dev/null; done; true' EXIT
ip link set lo up; ip link add br0 type bridge; ip address add 10.9.0.1/24 dev br0; ip link set br0 up
complain() { echo "too late: $1"; tail -n 30 /run/*.log; $program nodes --settings /run/fleet.toml 2>&1; exit 1; }
until_true() { timeout 120 sh -c "until $1; do sleep 0.1; done" || complain "$1"; }
pubsub() { cat <<END
[cluster.pubsub]
enable_df_pub_sub = true
publishers_ips = $1
publisher_port = $2
publisher_multiproc_socket = "/run/$3.door"
heartbeat-interval = "200ms"
peer-timeout = "1s"
backoff-cap = "500ms"
fallback-after = "2s"
lease = "${lease:-15s}"
lease-renewal = "${renewal:-3s}"
lease-grace = "1s"
END
}
store() { printf '[cluster.store]\nendpoints = ["http://10.9.0.1:2379"]\n'; }
begin() { name=$1; ready=$2; shift 2; rm -f /run/$name.log; "$@" > /run/$name.log 2>&1 & echo $! > /run/$name.pid; until_true "grep -qs '$ready' /run/$name.log"; }
kill_it() { kill -9 $(cat /run/$1.pid); until_true "! kill -0 $(cat /run/$1.pid) 2> /dev/null"; }
(echo '[cluster]'; store; pubsub '[]' 1 fleet) > /run/fleet.toml
begin_store() {
  ${etcd:-etcd} --data-dir /run/etcd --listen-client-urls http://10.9.0.1:2379 --advertise-client-urls http://10.9.0.1:2379 \
    --log-level error > /run/store.log 2>&1 & echo $! > /run/store.pid
  until_true "$program nodes --settings /run/fleet.toml > /dev/null 2>&1"
}
begin_distributor() {
  (echo '[cluster]'; store
   printf '[cluster.distributor]\nname = "%s"\nadvertise = "tcp://10.9.0.1:%s"\n' $1 $2; pubsub '[]' $2 $1) > /run/$1.toml
  begin $1 '^ready' $program distributor --settings /run/$1.toml
}
node() {
  ip netns add $1; ip link add $1 type veth peer name up0 netns $1
  ip link set $1 master br0 up; ip -n $1 address add 10.9.0.$2/24 dev up0; ip -n $1 link set up0 up; ip -n $1 link set lo up
}
begin_agent() { begin $1 '^ready' ip netns exec $1 $program agent --settings /run/$1.toml; }
settings() { printf 'state-directory = "/run/state-%s"\nsocket = "/run/%s.sock"\n[cluster]\nnode = "%s"\n' $1 $1 $1; }
member() { name=$1; node $1 $2; shift 2; (settings $name; for line in "$@"; do echo "$line"; done; store; pubsub '[]' 1 $name) > /run/$name.toml; begin_agent $name; }
link() { printf 'kind: bridge\nname: %s\n' $1; }
declare() { who=$1; name=$2; shift 2; link $name > /run/$name.yaml; $program apply --to $who -f /run/$name.yaml --settings /run/fleet.toml "$@"; }
has() { ip -n $1 link show $2 > /dev/null 2>&1; }
links() { for node in "$@"; do echo $node: $(ip -n $node -o link show type bridge | cut -d: -f2 | sort); done; }
listed() { until_true "$program nodes --settings /run/fleet.toml | grep -c equal | grep -qx $1"; }
nodes() { $program nodes --settings /run/fleet.toml; }
counted() { printf '[telemetry.metrics]\nlisten = "127.0.0.1:9157"\n'; }
number() { ip netns exec $1 curl -s http://127.0.0.1:9157/metrics | grep -F "kilter_$2 " | sed 's/.* //'; }
well() { until_true "$program nodes --settings /run/fleet.toml | grep -c 'equal  *[0-9][0-9]*  *\(fine\|store: etcd\)' | grep -qx $1"; }
"#;

/// The etcd that the tests of EventFlow use: a new one.
fn new_etcd() -> String {
    let built = concat!(env!("CARGO_MANIFEST_DIR"), "/../../target/tools/kube").to_owned();
    let folders = std::env::var("KUBEBUILDER_ASSETS").into_iter().chain([built]);
    let found =
        folders.map(|folder| format!("{folder}/etcd")).find(|path| std::path::Path::new(path).exists());
    found.expect("etcd for the tests is there, hint: cargo xtask test")
}

pub(crate) fn script(lines: &str) -> String {
    in_a_network(&format!("{FUNCTIONS}\n{lines}"))
}

#[test]
fn what_is_declared_for_some_nodes_appears_there_and_stays_without_the_store() {
    let said = script(
        r#"begin_store; begin_distributor d1 8866
           member n1 11 'labels = { role = "edge" }'; member n2 12; member n3 13 'labels = { role = "edge" }'; listed 3
           declare n2 lan2 --wait 120s; declare role=edge lan7 --wait 120s; declare all lan9 --wait 120s; links n1 n2 n3
           well 3; nodes | cut -d' ' -f1 | xargs
           echo without the store; kill_it store; kill_it d1
           ip -n n2 link delete lan2; until_true 'ip -n n2 link show lan2 > /dev/null 2>&1'
           kill_it n2; ip -n n2 link delete lan9; begin_agent n2; links n1 n2 n3
           echo with it again; begin_store; begin_distributor d1 8866
           declare n2 lan3 --prune --wait 120s; links n2; kill -TERM $(cat /run/n2.pid)
           until_true "$program nodes --settings /run/fleet.toml | grep -q 'n2 .*away'""#,
    );
    let there = "n1: lan7 lan9\nn2: lan2 lan9\nn3: lan7 lan9\n";
    let told = |to: &str| format!("declared to {to}: 1 put, 0 deleted, in revision ");
    for to in ["node:n2", "label:role=edge", "all"] {
        assert!(said.contains(&told(to)), "{said}");
    }
    let said: Vec<&str> = said.lines().filter(|line| !line.starts_with("declared")).collect();
    let expected =
        format!("{there}NODE n1 n2 n3 the\nwithout the store\n{there}with it again\nn2: lan3 lan9");
    assert_eq!(said.join("\n"), expected);
}

#[test]
fn a_distributor_that_is_killed_is_replaced_by_the_other_and_forgotten() {
    let said = script(
        r#"lease=3s; renewal=1s; begin_store; member n1 11
           until_true "$program nodes --settings /run/fleet.toml | grep -q 'cluster: no distributor answers'"
           begin_distributor d1 8866; well 1
           declare n1 lan1 --wait 120s; begin_distributor d2 8867
           until_true 'grep -q "another distributor is at tcp://10.9.0.1:8867" /run/d1.log'
           kill_it d1; declare n1 lan2 --wait 120s; links n1
           until_true 'grep -q "the distributor at tcp://10.9.0.1:8866 is gone" /run/d2.log'
           kill -TERM $(cat /run/d2.pid); until_true 'grep -q ^stopped: /run/d2.log'
           declare n1 lan3; until_true 'ip -n n1 link show lan3 > /dev/null 2>&1'; links n1"#,
    );
    let links: Vec<&str> = said.lines().filter(|line| !line.starts_with("declared")).collect();
    assert_eq!(links, ["n1: lan1 lan2", "n1: lan1 lan2 lan3"], "the last one came from the store itself");
}

#[test]
fn a_value_that_cannot_be_used_keeps_the_last_good_one_and_is_told() {
    let said = script(
        r#"begin_store; begin_distributor d1 8866; member n1 11; listed 1; declare n1 lan1 --wait 120s
           put() { curl -s http://10.9.0.1:2379/v3/kv/put -d "{\"key\": \"$(printf %s "$1" | base64 -w0)\", \"value\": \"$(printf %s "$2" | base64 -w0)\"}" > /dev/null; }
           put kilter/items/node:n1/linux/link/host/lan1 '{"kind": "bridge", "nam": "lan1"}'
           until_true "$program nodes --settings /run/fleet.toml | grep -q 'cluster: .linux/link/host/lan1. cannot be used, its last good value stays'"
           declare n1 lan2 --wait 120s; links n1; kill_it n1; begin_agent n1; links n1
           declare n1 lan1 --wait 120s; well 1; links n1"#,
    );
    let links: Vec<&str> = said.lines().filter(|line| !line.starts_with("declared")).collect();
    assert_eq!(links, ["n1: lan1 lan2"; 3]);
}

#[test]
fn a_node_follows_and_drops_topics_as_it_is_told_what_it_is() {
    let said = script(
        r#"begin_store; begin_distributor d1 8866; member n1 11; member n2 12; listed 2
           declare tenant:acme acme; declare rack=7 rack7; declare all lan9 --wait 120s; links n1 n2
           $program nodes set n1 --label rack=7 --tenant acme --settings /run/fleet.toml > /dev/null
           until_true 'ip -n n1 link show acme > /dev/null 2>&1 && ip -n n1 link show rack7 > /dev/null 2>&1'; links n1 n2
           kill_it n1; begin_agent n1; links n1
           $program nodes set n1 --label rack=7 --settings /run/fleet.toml > /dev/null
           until_true '! ip -n n1 link show acme > /dev/null 2>&1'; links n1"#,
    );
    let links: Vec<&str> = said.lines().filter(|line| !line.starts_with("declared")).collect();
    let all = "n1: acme lan9 rack7";
    assert_eq!(links, ["n1: lan9", "n2: lan9", all, "n2: lan9", all, "n1: lan9 rack7"]);
}

#[test]
fn without_etcd_one_agent_keeps_the_store_in_a_file_and_distributes_it() {
    let said = script(
        r#"node n1 11; node n2 12
           file() { printf '[cluster.store]\nfile = "/run/store.redb"\n'; }
           (settings n1; file; echo '[cluster.distributor]'; pubsub '[]' 8866 n1) > /run/n1.toml
           (settings n2; pubsub '["10.9.0.11"]' 8866 n2) > /run/n2.toml
           (echo '[cluster]'; file; pubsub '[]' 1 n1) > /run/fleet.toml
           begin_agent n1; begin_agent n2; declare n2 lan2; declare all lan9
           until_true 'ip -n n2 link show lan9 > /dev/null 2>&1 && ip -n n1 link show lan9 > /dev/null 2>&1'; links n1 n2
           kill_it n1; begin_agent n1; declare n2 lan3 --prune; until_true 'ip -n n2 link show lan3 > /dev/null 2>&1'
           until_true '! ip -n n2 link show lan2 > /dev/null 2>&1'; links n1 n2"#,
    );
    let links: Vec<&str> = said.lines().filter(|line| !line.starts_with("declared")).collect();
    assert_eq!(links, ["n1: lan9", "n2: lan2 lan9", "n1: lan9", "n2: lan3 lan9"]);
}

#[test]
fn an_agent_that_hands_over_is_there_all_the_while_and_follows_on() {
    let said = script(
        r#"begin_store; begin_distributor d1 8866; node n1 11
           (settings n1; store; lease=60s; pubsub '[]' 1 n1) > /run/n1.toml; begin_agent n1
           listed 1; declare n1 lan1 --wait 120s
           index() { ip -n n1 -o link show lan1 | cut -d: -f1; }; before=$(index)
           (while test ! -e /run/enough; do nodes; done > /run/seen) & seeing=$!
           until_true 'grep -q n1 /run/seen'
           kill -HUP $(cat /run/n1.pid); until_true 'test $(grep -c ^ready /run/n1.log) = 2'
           declare n1 lan2 --wait 120s; links n1; test $(index) = $before && echo the first one is the same
           : > /run/enough; wait $seeing; grep -c away /run/seen || true"#,
    );
    let links: Vec<&str> = said.lines().filter(|line| !line.starts_with("declared")).collect();
    assert_eq!(links, ["n1: lan1 lan2", "the first one is the same", "0"]);
}

#[test]
fn an_idle_node_writes_nothing_and_a_new_store_is_no_concern() {
    let etcd = new_etcd();
    let said = script(&format!(
        r#"etcd={etcd}; lease=3s; renewal=1s; begin_store; begin_distributor d1 8866; member n1 11; listed 1
           declare n1 lan1 --wait 120s; until_true "$program nodes --settings /run/fleet.toml | grep -q 'equal.*fine'"
           version() {{
             curl -s http://10.9.0.1:2379/v3/kv/range -d "{{\"key\": \"$(printf %s "$1" | base64 -w0)\"}}" | tr , '\n' | sed -n 's/.*"version":"\([0-9]*\)".*/\1/p'
           }}
           # The row of the distributor is renewed every second, so that the store goes on, which is asked for every five.
           is_idle() {{
             before=$(version kilter/nodes/n1); row=$(version kilter/distributors/d1)
             while test $(version kilter/distributors/d1) -lt $((row + 12)); do sleep 0.2; done
             test $(version kilter/nodes/n1) = $before
           }}
           tries=0; until is_idle; do tries=$((tries + 1)); test $tries -lt 5 || complain 'the node is never idle'; done; echo idle
           declare n1 lan2 --wait 120s; links n1; grep -c warning /run/d1.log || true"#
    ));
    let said: Vec<&str> = said.lines().filter(|line| !line.starts_with("declared")).collect();
    assert_eq!(said, ["idle", "n1: lan1 lan2", "0"]);
}

#[test]
fn a_store_that_may_lose_events_is_told_and_so_is_a_wait_for_nobody() {
    let said = script(
        r#"begin_store; begin_distributor d1 8866; member n1 11; listed 1
           # Whether the package has a server that loses events, it says itself.
           if etcd --version | grep -qE 'etcd Version: 3\.(4\.([0-9]|[12][0-9]|3[0-5])|5\.([0-9]|1[0-7]))$'; then
             until_true "grep -q 'warning: etcd 3.* may lose deletions when it compacts' /run/d1.log"
             until_true "$program nodes --settings /run/fleet.toml | grep -q 'store: etcd 3.* may lose deletions when it compacts'"
           fi; echo told
           declare role=none lan1 --wait 1s || echo "exit $?"; declare n1 lan2 --wait 120s; links n1"#,
    );
    let said: Vec<&str> = said.lines().filter(|line| !line.starts_with("declared")).collect();
    let nobody =
        "not there yet: nobody follows `label:role=none`, hint: `kilter nodes` lists who follows what";
    assert_eq!(said, ["told", nobody, "exit 3", "n1: lan2"]);
}

#[test]
fn what_is_committed_together_is_one_transaction_and_a_restart_fetches_nothing_again() {
    let said = script(
        r#"begin_store; begin_distributor d1 8866; node n1 11; (settings n1; store; pubsub '[]' 1 n1; counted) > /run/n1.toml
           begin_agent n1; listed 1; declare n1 lan0 --wait 120s
           changes='transactions_total{type="changes",outcome="applied"}'; before=$(number n1 "$changes")
           for lan in 1 2 3 4 5; do printf -- '---\nkind: bridge\nname: lan%s\n' $lan; done > /run/five.yaml
           $program apply --to n1 -f /run/five.yaml --settings /run/fleet.toml --wait 120s > /dev/null
           links n1; echo $(($(number n1 "$changes") - before)) transaction
           until_true 'grep -q lan5 /run/state-n1/cluster.mirror'; kill_it n1; begin_agent n1; declare n1 lan6 --wait 120s
           until_true 'ip netns exec n1 curl -s http://127.0.0.1:9157/metrics | grep -qE "what=.(slices|ranges).} [1-9]"'
           for what in snapshots deltas; do echo $what $(number n1 "cluster_delivery_total{what=\"$what\"}"); done; links n1
           # What is kept is broken in one item: the digest tells, what differs is fetched, and the node says so.
           kill_it n1; sed -i 's#\("linux/link/host/lan1"\),[0-9]*#\1,1#' /run/state-n1/cluster.mirror; begin_agent n1
           until_true "$program nodes --settings /run/fleet.toml | grep -q 'cluster: .node:n1. was not what its distributor holds'"
           listed 1; links n1"#,
    );
    let said: Vec<&str> = said.lines().filter(|line| !line.starts_with("declared")).collect();
    let five = "n1: lan0 lan1 lan2 lan3 lan4 lan5";
    let six = format!("{five} lan6");
    assert_eq!(said, [five, "1 transaction", "snapshots 0", "deltas 0", &six, &six]);
}

#[test]
fn a_writer_pokes_the_distributor_of_its_machine() {
    // The store is asked once an hour: what arrives was poked for.
    let said = script(
        r#"begin_store
           (echo '[cluster]'; store; printf '[cluster.distributor]\nname = "d1"\nadvertise = "tcp://10.9.0.1:8866"\n'
            pubsub '[]' 8866 d1; printf 'tail = "poll"\npoll-interval = "1h"\n') > /run/d1.toml
           begin d1 '^ready' $program distributor --settings /run/d1.toml; member n1 11; listed 1
           declare n1 lan1 --wait 2s || echo "exit $?"; links n1
           (echo '[cluster]'; store; pubsub '[]' 1 d1) > /run/fleet.toml; declare n1 lan2 --wait 120s; links n1"#,
    );
    let said: Vec<&str> = said.lines().filter(|line| !line.starts_with("declared")).collect();
    assert_eq!(said, ["not there yet: n1", "exit 3", "n1:", "n1: lan1 lan2"]);
}

#[test]
fn without_distributors_an_agent_watches_the_store_itself() {
    let said = script(
        r#"begin_store; node n1 11; (settings n1; store; pubsub '[]' 1 n1 | sed 's/true/false/') > /run/n1.toml; begin_agent n1; listed 1
           declare n1 lan1 --wait 120s; kill_it store; begin_store; declare n1 lan2 --wait 120s; links n1"#,
    );
    assert_eq!(said.lines().last(), Some("n1: lan1 lan2"));
}

/// A folder with an authority, and with certificates that it and somebody else issued.
fn certificates(folder: &std::path::Path) {
    let authority = || {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().unwrap();
        let certificate = params.self_signed(&key).unwrap().pem();
        (certificate, Issuer::new(params, key))
    };
    let ((certificate, ours), (_, theirs)) = (authority(), authority());
    std::fs::create_dir_all(folder).unwrap();
    std::fs::write(folder.join("ca.pem"), certificate).unwrap();
    for (name, issuer) in [("node", &ours), ("stranger", &theirs)] {
        let key = KeyPair::generate().unwrap();
        let certificate =
            CertificateParams::new(vec!["10.9.0.1".to_owned()]).unwrap().signed_by(&key, issuer);
        std::fs::write(folder.join(format!("{name}.pem")), certificate.unwrap().pem()).unwrap();
        std::fs::write(folder.join(format!("{name}.key")), key.serialize_pem()).unwrap();
    }
}

#[test]
fn with_certificates_only_those_of_the_authority_are_served() {
    let folder = std::env::temp_dir().join(format!("kilter-certificates-{}", std::process::id()));
    certificates(&folder);
    let said = script(&format!(
        r#"tls() {{ printf '[cluster.tls]\nauthority = "{0}/ca.pem"\ncertificate = "{0}/%s.pem"\nkey = "{0}/%s.key"\n' $1 $1; }}
           begin_store; begin_distributor d0 8865; kill_it d0; (cat /run/d0.toml; tls node) > /run/d1.toml
           begin d1 '^ready' $program distributor --settings /run/d1.toml
           for node in n1 n2; do node $node 1${{node#n}}; done
           member() {{ (settings $1; store; pubsub '[]' 1 $1 | sed 's/fallback-after.*/fallback = false/'; tls $2) > /run/$1.toml; begin_agent $1; }}
           member n1 node; member n2 stranger; declare all lan9; until_true 'ip -n n1 link show lan9 > /dev/null 2>&1'
           until_true "$program nodes --settings /run/fleet.toml | grep -q 'n2 .*differs'"; links n1 n2"#,
        folder.display()
    ));
    std::fs::remove_dir_all(&folder).unwrap();
    let links: Vec<&str> = said.lines().filter(|line| !line.starts_with("declared")).collect();
    assert_eq!(links, ["n1: lan9", "n2:"]);
}

#[test]
fn an_agent_goes_from_zeromq_to_nats_as_distributors_come_and_go() {
    let peers = concat!(env!("CARGO_MANIFEST_DIR"), "/../../target/python/bin");
    let said = script(&format!(
        r#"begin_store; begin broker 'Server is ready' {peers}/nats-server -a 10.9.0.1 -p 4222 -js -sd /run/nats
           carried() {{
             (echo '[cluster]'; store; printf '[cluster.distributor]\nname = "%s"\nadvertise = "%s"\n' $1 $2
              pubsub '[]' 8866 $1; printf 'publisher_transport = "%s"\n' $1) > /run/$1.toml
             begin $1 '^ready' $program distributor --settings /run/$1.toml
           }}
           node n1 11; (settings n1; store; pubsub '[]' 1 n1 | sed 's/fallback-after.*/fallback = false/') > /run/n1.toml
           begin_agent n1; carried zmq zmq://10.9.0.1:8866; listed 1; declare n1 lan1 --wait 120s; links n1
           kill_it zmq; carried nats nats://10.9.0.1:4222/d1; declare n1 lan2 --wait 120s; links n1
           kill_it broker; begin broker 'Server is ready' {peers}/nats-server -a 10.9.0.1 -p 4222 -js -sd /run/nats
           declare n1 lan3 --wait 120s; links n1"#
    ));
    let links: Vec<&str> = said.lines().filter(|line| !line.starts_with("declared")).collect();
    assert_eq!(links, ["n1: lan1", "n1: lan1 lan2", "n1: lan1 lan2 lan3"]);
}
