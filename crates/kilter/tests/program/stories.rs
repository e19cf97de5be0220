//! The stories under `examples/`: each has the plan and the statuses it promises, and does what it tells.

use crate::program::{Running, kilter, kilter_alone, root, run, sandbox, sh, wait_for};

/// Every folder under `examples/` that declares something.
fn stories() -> Vec<String> {
    let entries = std::fs::read_dir(root().join("examples")).unwrap().map(|entry| entry.unwrap().path());
    let has_documents = |path: &std::path::Path| {
        let mut files = std::fs::read_dir(path).unwrap().map(|file| file.unwrap().path());
        files.any(|file| file.extension().is_some_and(|extension| extension == "yaml"))
    };
    let mut stories: Vec<String> = entries
        .filter(|path| path.is_dir() && has_documents(path))
        .map(|path| format!("examples/{}", path.file_name().unwrap().to_str().unwrap()))
        .collect();
    stories.sort();
    stories
}

/// What a file beside the documents promises; written anew if the golden files are to be.
fn promised(story: &str, file: &str, found: &str) -> String {
    let path = root().join(story).join(file);
    if std::env::var_os("UPDATE_GOLDENFILES").is_some() {
        std::fs::write(&path, found).unwrap();
    }
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The table of statuses, as `up` shows it at its end.
fn statuses(said: &str) -> &str {
    let (_, table) = said.split_once("\nITEM").unwrap_or_else(|| panic!("no table in {said}"));
    table.split_once("stopped: ").unwrap().0
}

#[test]
fn every_story_has_the_plan_and_the_statuses_it_promises() {
    let stories = stories();
    assert!(stories.contains(&"examples/lab".to_owned()), "{stories:?}");
    for story in stories {
        let planned = run(kilter_alone(&["plan", &story]));
        assert_eq!(planned.stdout, promised(&story, "expected-plan", &planned.stdout), "{}", planned.stderr);
        let up = run(kilter(&["up", &story, "--sandbox", "--once"]));
        assert!(up.stdout.contains(&planned.stdout), "{story}: the same plan is carried out: {}", up.stdout);
        let found = format!("ITEM{}", statuses(&up.stdout));
        assert_eq!(found, promised(&story, "expected-status", &found), "{story}: {}{}", up.stdout, up.stderr);
        let code = match () {
            () if found.contains("UNIMPLEMENTED") => 4,
            () if found.contains("PENDING") => 3,
            () => 0,
        };
        assert_eq!(up.code, Some(code), "{story}: {}", up.stdout);
    }
}

/// Waits for an answer to a ping.
fn wait_for_ping(inside: &str, from: &str, to: &str) {
    let line = format!("{inside} ip netns exec {from} ping -c 1 -W 1 {to}");
    wait_for(&line, || sh(&line).is_ok());
}

fn end(running: Running) {
    let (code, said) = running.end("TERM");
    assert_eq!(code, Some(0), "{said:#?}");
}

#[test]
fn a_process_in_another_language_makes_a_kind_real() {
    let said = crate::daemon::script(
        "python=$PWD/target/python/bin/python; test -x $python || { echo \"run cargo xtask test\"; exit 1; }
         mkdir /run/netns-files; cp examples/remote-kind/site.yaml /run/site/; begin /run/log1
         attach() { $python examples/remote-kind/resolvers.py --socket /run/kilter/kilter.sock --folder /run/netns-files > $1 2>&1 & process=$!
                    until_true \"grep -q ready $1\"; }
         is() { until_true \"$program status | grep -q 'example/resolver/office .*$1'\"; }
         is UNIMPLEMENTED; attach /run/python1; is CONFIGURED; tail -n +2 /run/netns-files/office/resolv.conf
         rm /run/netns-files/office/resolv.conf; until_true 'test -e /run/netns-files/office/resolv.conf'; echo healed
         kill -9 $process; sed -i 's/10.7.0.53/10.7.0.54/' /run/site/site.yaml; is 'process .resolvers.py. is away'; echo away
         attach /run/python2; is CONFIGURED; grep ^nameserver /run/netns-files/office/resolv.conf | head -1
         printf 'kind: example.resolver\\nname: office\\n' > /run/site/site.yaml; is INVALID; echo invalid
         printf 'kind: netns\\nname: office\\n' > /run/site/site.yaml
         until_true 'test ! -e /run/netns-files/office'; echo removed; kill $process; end",
    );
    let expected = "nameserver 10.7.0.53\nnameserver 2001:db8:7::53\nsearch office.example\nhealed\naway\n\
                    nameserver 10.7.0.54\ninvalid\nremoved\ncode 0\n";
    assert_eq!(said, expected);
}

#[test]
fn tenants_reach_each_other_over_the_overlay() {
    let (running, inside) = sandbox("examples/overlay");
    wait_for_ping(&inside, "tenant-east", "10.99.0.2");
    end(running);
}

#[test]
fn what_leaves_the_private_network_has_the_address_of_the_gateway() {
    let (running, inside) = sandbox("examples/nat");
    wait_for_ping(&inside, "inside", "203.0.113.9");
    // The server inside answers on a port of the gateway, and sees who asks.
    let serve = "python3 -c 'import socket; s = socket.create_server((\"192.168.7.10\", 80))\nwhile True:\n c, a = s.accept()\n \
                 c.sendall(a[0].encode()); c.close()'";
    let dial = "python3 -c 'import socket; print(socket.create_connection((\"203.0.113.1\", 8080)).recv(99).decode())'";
    let line = format!(
        "timeout 120 {inside} ip netns exec inside {serve} & server=$!; end=$(($(date +%s) + 60)); \
         until {inside} ip netns exec outside timeout 5 {dial} 2> /dev/null; do \
           test $(date +%s) -lt $end || break; sleep 0.2; done; kill $server"
    );
    assert_eq!(sh(&line).unwrap().trim(), "203.0.113.9");
    end(running);
}

#[test]
fn packets_take_the_way_of_who_asks() {
    let (running, inside) = sandbox("examples/policy-routing");
    let way = |question: &str| sh(&format!("{inside} ip netns exec edge ip route get {question}")).unwrap();
    assert!(way("192.0.2.1 from 198.18.2.2").contains("via 198.18.2.1 dev b0 table 102"));
    assert!(way("192.0.2.1 from 198.18.1.2").contains("via 198.18.1.1 dev a0 table 101"));
    assert!(way("192.0.2.1 mark 5").contains("dev b0 table 102"));
    assert!(way("192.0.2.1").contains("via 198.18.1.1 dev a0"));
    assert!(
        sh(&format!("{inside} ip netns exec edge ip route get 10.1.2.3")).is_err(),
        "it must never leave"
    );
    end(running);
}

#[test]
fn what_waits_for_hardware_comes_up_with_it_and_waits_again() {
    let (mut running, inside) = sandbox("examples/waiting");
    let host = |line: &str| sh(&format!("{inside} ip netns exec host1 {line}"));
    assert!(host("ip link show service").is_err());
    host("ip link add nic0 type veth peer name far0").unwrap();
    host("ip link set far0 up").unwrap();
    wait_for("the route", || {
        host("ip route show 10.60.0.0/16").unwrap().contains("via 10.50.0.1 dev service")
    });
    assert!(host("ip link show nic0").unwrap().contains("mtu 1400"));
    host("ip link del nic0").unwrap();
    running.wait_for_line("5 items: 2 CONFIGURED, 3 PENDING");
    let (code, said) = running.end("TERM");
    assert_eq!(code, Some(3), "{said:#?}");
}

#[test]
fn servers_reach_each_other_through_ports_without_addresses() {
    let (running, inside) = sandbox("examples/first-hop");
    wait_for_ping(&inside, "server1", "10.20.0.2");
    end(running);
}

#[test]
fn the_line_is_as_slow_as_it_is_declared() {
    let (running, inside) = sandbox("examples/shaping");
    let shown = sh(&format!("{inside} ip netns exec branch tc qdisc show dev uplink")).unwrap();
    assert!(shown.contains("qdisc tbf") && shown.contains("rate 2Mbit"), "{shown}");
    end(running);
}
