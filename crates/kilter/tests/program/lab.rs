//! The lab of the README: it forwards packets, heals, and leaves nothing behind.

use crate::program::{Running, sandbox, sh, wait_for};

const LAB: &str = "examples/lab";

/// What can be seen of the machine's network: links, routes, rules, nftables, kernel parameters, mounts of namespaces.
fn machine() -> String {
    let parameters = "net.ipv4.ip_forward net.ipv4.conf.all.forwarding net.ipv6.conf.all.forwarding";
    sh(&format!(
        "ip -o link; ip route; ip -6 route; ip rule; nft list ruleset; sysctl {parameters}
         ls /run/netns 2> /dev/null; grep -E 'netns|kilter' /proc/self/mounts; true"
    ))
    .unwrap()
}

#[test]
fn the_lab_forwards_packets_and_only_those_it_should() {
    let before = machine();
    let (running, inside) = sandbox(LAB);
    let ping =
        |from: &str, to: &str| sh(&format!("{inside} ip netns exec {from} ping -c 1 -W 1 {to}")).is_ok();
    wait_for("an answer over IPv4", || ping("left", "10.2.0.2"));
    wait_for("an answer over IPv6", || ping("left", "fd00:2::2"));
    wait_for("an answer the other way", || ping("right", "10.1.0.2"));
    let dial = sh(&format!("{inside} ip netns exec left bash -c 'exec 3<>/dev/tcp/10.2.0.2/80'"));
    assert!(dial.is_err());
    let rules = sh(&format!("{inside} ip netns exec router nft list table inet guard")).unwrap();
    assert!(!rules.contains("counter packets 0 "), "the router refused it, not the host: {rules}");
    assert_eq!(machine(), before, "nothing of the machine is touched");
    let (code, said) = running.end("TERM");
    assert_eq!(code, Some(0), "{said:#?}");
    assert_eq!(said.last().unwrap(), "stopped: the sandbox and everything in it is gone");
    assert_eq!(machine(), before);
}

#[test]
fn what_is_deleted_by_hand_comes_back() {
    let (mut running, inside) = sandbox(LAB);
    let left = |line: &str| sh(&format!("{inside} ip netns exec left {line}"));
    left("ip route del default").unwrap();
    wait_for("the route is back", || left("ip route show default").unwrap().contains("via 10.1.0.1"));
    running.wait_for_line("drift: txn #");
    running.wait_for_line("create   linux/route/left/main/0.0.0.0/0/0");

    // A cable that is pulled takes addresses and routes along, and they come back with it.
    sh(&format!("{inside} ip netns exec switch ip link del left")).unwrap();
    wait_for("packets again", || left("ping -c 1 -W 1 10.2.0.2").is_ok());

    // A router that burns down. The new one has other hardware addresses, which the hosts would find out in a while.
    sh(&format!("{inside} ip netns del router")).unwrap();
    running.wait_for_line("create   linux/netns/router");
    let flush = |host: &str| sh(&format!("{inside} ip netns exec {host} ip neigh flush all")).unwrap();
    wait_for("packets again", || {
        flush("left");
        flush("right");
        left("ping -c 1 -W 1 10.2.0.2").is_ok()
    });
    let (code, said) = running.end("INT");
    assert_eq!(code, Some(0), "{said:#?}");
}

#[test]
fn what_is_deleted_before_the_agent_has_drawn_breath_comes_back_too() {
    let mut running = Running::start(&["up", LAB, "--sandbox"]);
    let line = running.wait_for_line("nsenter ");
    let inside = line.trim().strip_suffix(" ip netns").unwrap().to_owned();
    running.wait_for_line("done: ");
    sh(&format!("{inside} ip netns exec switch ip link del left")).unwrap();
    wait_for("packets", || sh(&format!("{inside} ip netns exec left ping -c 1 -W 1 10.2.0.2")).is_ok());
    assert_eq!(running.end("TERM").0, Some(0));
}
