//! The daemon hands over to a new program, or to a new process, while others ask it.

use std::os::unix::net::UnixListener;
use std::process::{Command, Stdio};

use crate::daemon::script;
use crate::program::{kilter, run, sh, wait_for};

/// The hash of `look`.
const TOKEN: &str = "689a03c54b40a40a6cc2b8da8664ea662bbb0d0692a84ace72aefad23f167c22";

#[test]
fn nobody_fails_and_nothing_is_written_while_the_agent_hands_over() {
    let said = script(
        "cp examples/lab/*.yaml /run/site/; cp $program /run/kilter-program; program=/run/kilter-program
         begin /run/log1; ip -n router -o link | cut -d' ' -f1,2 > /run/before
         ask() { while test ! -e /run/enough; do code=0; $program status > /run/asked 2>&1 || code=$?
           test $code = 0 -o $code = 3 || { cat /run/asked; echo failed; }; echo; done >> /run/answers; }
         apply() { i=0; while test ! -e /run/enough; do i=$((i+1)); netns n$((i % 3)) > /run/doc
           $program apply -f /run/doc --source load --prune > /run/told 2>&1 || { cat /run/told; echo failed; }; echo; done >> /run/applied; }
         $program watch > /run/watched 2>&1 & watcher=$!
         ask & asking=$!; apply & applying=$!
         for n in 2 3 4; do
           cp $program /run/new; mv /run/new /run/kilter-program
           kill -HUP $agent; until_true \"test \\$(grep -c ^ready /run/log1) = $n\"
         done
         : > /run/enough; wait $asking $applying; grep -c failed /run/answers /run/applied
         test $(wc -l < /run/answers) -gt 5 && echo asked often
         grep -c 'hands over' /run/log1; grep -v 'Declared Change .load' /run/log1 | grep -c operations
         ip -n router -o link | cut -d' ' -f1,2 | cmp - /run/before && echo same links
         kill -0 $watcher && kill $watcher && echo still watching; end",
    );
    assert_eq!(
        said,
        "/run/answers:0\n/run/applied:0\nasked often\n3\n1\nsame links\nstill watching\ncode 0\n"
    );
}

#[test]
fn however_often_it_is_told_to_hand_over_somebody_keeps_the_network() {
    let said = script(
        "netns one > /run/site/one.yaml; begin /run/log1
         i=0; while test $i -lt 300; do kill -HUP $agent || echo gone; i=$((i+1)); ip netns > /dev/null; done
         until_true \"$program status | grep -q CONFIGURED\"; test $(grep -c 'hands over' /run/log1) -gt 1 && echo more than once
         grep -c operations /run/log1; end; ip netns",
    );
    assert_eq!(said, "more than once\n1\ncode 0\none\n");
}

#[test]
fn an_agent_that_cleans_up_leaves_everything_when_it_hands_over() {
    let said = script(
        "netns one > /run/site/one.yaml; printf 'clean-up = true\\n%s\\n' \"$(cat /run/kilter.toml)\" > /run/kilter.toml
         begin /run/log1; kill -HUP $agent; until_true 'test $(grep -c ^ready /run/log1) = 2'; ip netns
         grep -c operations /run/log1; end; ip netns | wc -l",
    );
    assert_eq!(said, "one\n1\ncode 0\n0\n");
}

#[test]
fn a_change_that_waits_for_its_confirmation_goes_on_waiting() {
    let said = script(
        "begin /run/log1; netns one > /run/one; $program apply -f /run/one --confirm 1h > /dev/null
         kill -HUP $agent; until_true 'test $(grep -c ^ready /run/log1) = 2'
         $program confirm --show | grep -c 'is taken back'; $program confirm > /dev/null; ip netns; end",
    );
    assert_eq!(said, "1\none\ncode 0\n");
}

#[test]
fn whoever_asks_over_tls_waits_while_the_agent_hands_over() {
    let folder = std::env::temp_dir().join(format!("kilter-handed-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let (certificate, key) = {
        let made = rcgen::generate_simple_self_signed(vec!["127.0.0.1".to_owned()]).unwrap();
        (made.cert.pem(), made.signing_key.serialize_pem())
    };
    std::fs::write(folder.join("agent.pem"), certificate).unwrap();
    std::fs::write(folder.join("agent.key"), key).unwrap();
    let said = script(&format!(
        r#"folder={}; ip link set lo up
         (printf '[northbound]\naddress = "127.0.0.1:7480"\n[northbound.tls]\ncertificate = "%s/agent.pem"\nkey = "%s/agent.key"\n' $folder $folder
          printf '[[northbound.access.tokens]]\nname = "look"\nrole = "reader"\nblake3 = "{TOKEN}"\n') >> /run/kilter.toml
         begin /run/log1
         ask() {{ while test ! -e /run/enough; do
           curl -sSf -m 60 --cacert $folder/agent.pem -H 'authorization: Bearer look' https://127.0.0.1:7480/api/v1/health > /run/asked 2>&1 ||
             {{ cat /run/asked; echo failed; }}; echo; done >> /run/answers; }}
         : > /run/answers; ask & asking=$!
         for n in 2 3 4; do
           before=$(wc -l < /run/answers); until_true "test \$(wc -l < /run/answers) -gt $before"
           kill -HUP $agent; until_true "test \$(grep -c ^ready /run/log1) = $n"
         done
         : > /run/enough; wait $asking; grep failed -B1 /run/answers; end"#,
        folder.display()
    ));
    std::fs::remove_dir_all(&folder).unwrap();
    assert_eq!(said, "code 0\n");
}

#[test]
fn the_process_of_a_kind_attaches_to_the_next_agent_and_a_recording_begins_anew() {
    let said = script(
        "python=$PWD/target/python/bin/python; test -x $python || { echo \"run cargo xtask test\"; exit 1; }
         mkdir /run/netns-files; file=/run/netns-files/office/resolv.conf; cp examples/remote-kind/site.yaml /run/site/
         $program agent --settings /run/kilter.toml --record /run/recording > /run/log1 2>&1 & agent=$!; until_true 'grep -q ^ready /run/log1'
         $python examples/remote-kind/resolvers.py --socket /run/kilter/kilter.sock --folder /run/netns-files > /run/python 2>&1 & process=$!
         is() { until_true \"$program status | grep -q 'example/resolver/office .*$1'\"; }
         is CONFIGURED; stat -c %y $file > /run/before
         kill -HUP $agent; until_true 'test $(grep -c ^ready /run/log1) = 2'; until_true 'test $(grep -c ^ready /run/python) = 2'
         is CONFIGURED; stat -c %y $file | cmp - /run/before && echo not written
         rm $file; until_true \"test -e $file\"; echo healed; kill $process; end
         for run in /run/recording.1 /run/recording; do head -1 $run | grep -c '^{\"started\"'; done",
    );
    assert_eq!(said, "not written\nhealed\ncode 0\n1\n1\n");
}

#[test]
fn a_socket_of_the_service_manager_is_taken_and_left_to_it() {
    let folder = std::env::temp_dir().join(format!("kilter-manager-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let socket = folder.join("agent.sock");
    let held = UnixListener::bind(&socket).unwrap();
    let settings = folder.join("kilter.toml");
    std::fs::write(&settings, format!("state-directory = \"{}\"\n", folder.join("state").display())).unwrap();
    let (program, shown) = (env!("CARGO_BIN_EXE_kilter"), (settings.display(), socket.display()));
    let line = format!(
        "exec 3<&0 0< /dev/null; LISTEN_PID=$$ LISTEN_FDS=1 exec {program} agent --settings {} --socket {}",
        shown.0, shown.1
    );
    let start = || {
        let mut command = Command::new("unshare");
        command.args(["--user", "--map-root-user", "--net", "--mount", "sh", "-c", &line]);
        command.stdin(Stdio::from(std::os::fd::OwnedFd::from(held.try_clone().unwrap())));
        command.stdout(Stdio::null()).spawn().unwrap()
    };
    // Whoever asks before the agent is there waits.
    let asked = std::thread::spawn({
        let socket = socket.display().to_string();
        move || run(kilter(&["--socket", &socket, "status"]))
    });
    for _ in 0..2 {
        let mut agent = start();
        wait_for("the agent answers", || {
            run(kilter(&["--socket", &socket.display().to_string(), "status"])).code == Some(0)
        });
        sh(&format!("kill -TERM {}", agent.id())).unwrap();
        assert!(agent.wait().unwrap().success());
        assert!(socket.exists(), "the file is the manager's");
    }
    assert_eq!(asked.join().unwrap().code, Some(0));
    std::fs::remove_dir_all(&folder).unwrap();
}
