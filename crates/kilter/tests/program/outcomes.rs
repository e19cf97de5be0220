//! How a run ends, and what it says about it.

use std::os::unix::fs::MetadataExt as _;
use std::path::PathBuf;
use std::process::Command;

use crate::program::{Ended, kilter, run, sh};

/// A directory with one document, which goes with the test.
pub(crate) struct Folder(PathBuf);

impl Folder {
    pub(crate) fn of(name: &str, text: &str) -> Self {
        let folder = std::env::temp_dir().join(format!("kilter-{}-{name}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(folder.join("site.yaml"), text).unwrap();
        Self(folder)
    }

    pub(crate) fn path(&self) -> &str {
        self.0.to_str().unwrap()
    }

    pub(crate) fn write(&self, name: &str, text: &str) {
        std::fs::write(self.0.join(name), text).unwrap();
    }

    pub(crate) fn remove(&self, name: &str) {
        std::fs::remove_file(self.0.join(name)).unwrap();
    }

    fn up(&self) -> Ended {
        run(kilter(&["up", self.path(), "--sandbox", "--once"]))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        std::fs::remove_dir_all(&self.0).unwrap();
    }
}

#[test]
fn what_waits_is_pending_and_says_for_what() {
    let folder = Folder::of("pending", "kind: macvlan\nname: child\nlink: eth9\n");
    let ended = folder.up();
    assert_eq!(ended.code, Some(3), "{ended:?}");
    assert!(ended.stdout.contains("linux/link/host/child  PENDING"), "{}", ended.stdout);
    assert!(ended.stdout.contains("needs linux/link/host/eth9"), "{}", ended.stdout);
    assert!(ended.stdout.contains("site.yaml:1:7)"), "{}", ended.stdout);
}

#[test]
fn what_the_kernel_refuses_is_incomplete_and_the_rest_is_applied() {
    let text = "kind: sysctl\nname: net.ipv4.ip_forward\nvalue: banana\n---\nkind: netns\nname: alone\n";
    let ended = Folder::of("incomplete", text).up();
    assert_eq!(ended.code, Some(4), "{ended:?}");
    assert!(ended.stdout.contains("2 items: 1 CONFIGURED, 1 FAILED"), "{}", ended.stdout);
    assert!(ended.stdout.contains("(EINVAL)"), "{}", ended.stdout);
}

#[test]
fn a_wrong_document_is_told_before_anything_is_done() {
    let ended = Folder::of("invalid", "kind: brige\nname: lan\n---\nkind: netns\nname: a\n").up();
    assert_eq!((ended.code, ended.stdout.as_str()), (Some(8), ""));
    let told = "site.yaml:1:7: error: there is no kind `brige`\n  hint: did you mean `bridge`?\n1 problem, nothing was done\n";
    assert!(ended.stderr.ends_with(told), "{}", ended.stderr);
}

/// The program as a user who is nobody; `None` if we cannot become that user, and only then.
pub(crate) fn as_nobody(arguments: &[&str]) -> Option<Ended> {
    let place =
        std::env::temp_dir().join(format!("kilter-nobody-{}-{}", std::process::id(), arguments.len()));
    let (to, from) = (place.display(), crate::program::root());
    let program = env!("CARGO_BIN_EXE_kilter");
    sh(&format!("mkdir -p {to} && cp -r {program} {}/examples {to} && chmod -R a+rX {to}", from.display()))
        .unwrap();
    let mut command = Command::new("setpriv");
    command.args(["--reuid=65534", "--regid=65534", "--clear-groups"]);
    command.arg(place.join("kilter")).args(arguments).current_dir(&place);
    let ended = run(command);
    std::fs::remove_dir_all(&place).unwrap();
    let is_refused = ended.stderr.contains("setpriv: ");
    assert!(!is_refused || !may_be_anybody(), "root can become nobody: {ended:?}");
    (!is_refused).then_some(ended)
}

/// Whether we are root, and nobody is somebody here.
fn may_be_anybody() -> bool {
    let is_root = std::fs::metadata("/proc/self").is_ok_and(|process| process.uid() == 0);
    let map = std::fs::read_to_string("/proc/self/uid_map").unwrap();
    let has_nobody = map.lines().any(|line| {
        let numbers: Vec<u64> = line.split_whitespace().map(|number| number.parse().unwrap()).collect();
        (numbers[0]..numbers[0] + numbers[2]).contains(&65534)
    });
    is_root && has_nobody
}

#[test]
fn nobody_needs_to_be_root_for_a_sandbox() {
    let Some(ended) = as_nobody(&["up", "examples/lab", "--sandbox", "--once"]) else { return };
    assert!(ended.code == Some(0) || ended.code == Some(7) && ended.stderr.contains("hint:"), "{ended:?}");
}

#[test]
fn the_machine_itself_is_only_for_those_who_may() {
    let Some(ended) = as_nobody(&["up", "examples/lab", "--once"]) else { return };
    assert_eq!((ended.code, ended.stdout.as_str()), (Some(7), ""));
    let told = "error: this user may not change the network\n  hint: become root, or try `--sandbox`\n";
    assert_eq!(ended.stderr, told);
}

/// Runs lines of shell in a network of their own that lasts as long as they do.
pub(crate) fn in_a_network(lines: &str) -> String {
    let program = env!("CARGO_BIN_EXE_kilter");
    let lines = format!(
        "mount -t tmpfs run /run\nprogram={program}\nkilter() {{ $program \"$@\" 2>&1; echo \"code $?\"; }}\n{lines}"
    );
    let mut command = Command::new("unshare");
    command.args(["--user", "--map-root-user", "--net", "--mount", "sh", "-c", &lines]);
    command.current_dir(crate::program::root());
    let ended = run(command);
    assert_eq!(ended.code, Some(0), "{ended:?}");
    ended.stdout
}

#[test]
fn what_an_earlier_run_made_is_taken_over_and_removed_only_when_told() {
    let said = in_a_network(
        "kilter up examples/lab --once > /dev/null
         kilter up examples/lab --once
         kilter up examples/lab/switch.yaml --once; ip netns
         kilter up examples/lab/switch.yaml --once --prune; ip netns",
    );
    let parts: Vec<&str> = said.split("code ").collect();
    assert!(parts[0].contains("plan: 35 steps (adopt 35)\n"), "{said}");
    assert!(parts[0].contains("done: 0 operations") && parts[1].starts_with("0\n"), "{said}");
    assert!(
        parts[1].contains("left alone: an earlier run made 14 items that nothing declares now"),
        "{said}"
    );
    assert!(parts[2].starts_with("0\n") && parts[2].contains("left\n"), "nothing is gone: {said}");
    assert!(parts[3].ends_with("0\nswitch\n"), "{said}");
}

#[test]
fn what_was_only_tried_on_the_machine_is_removed_if_that_is_said() {
    let said = in_a_network(
        "$program up examples/lab --clean-up --socket /run/s > /run/log 2>&1 & up=$!
         timeout 180 sh -c 'until grep -q ^healing /run/log; do sleep 0.02; done'; head -1 /run/log; ip netns | wc -l
         kill -INT $up; wait $up; echo \"code $?\"; tail -1 /run/log; ip netns | wc -l",
    );
    let told = "machine: its own network is changed, and stays so in the end; --sandbox only tries, --clean-up removes";
    assert_eq!(said, format!("{told}\n4\ncode 0\nstopped: what was declared is removed\n0\n"));
}

#[test]
fn two_agents_do_not_keep_one_network() {
    let said = in_a_network(
        "$program up examples/lab/switch.yaml > /run/first & first=$!
         timeout 180 sh -c 'until grep -qs ^healing /run/first; do sleep 0.02; done'
         kilter up examples/lab --once
         kill -TERM $first; wait $first; echo \"code $?\"; tail -1 /run/first",
    );
    assert!(said.contains("error: this network is taken: another agent keeps this network\n"), "{said}");
    assert!(said.contains("code 7\n"), "{said}");
    assert!(said.ends_with("code 0\nstopped: the network stays as it is\n"), "{said}");
}

/// `up` on the machine itself, with a change that waits for its confirmation.
const RISKY: &str = r#"
netns() { printf 'kind: netns\nname: %s\n' $1; }
netns risky > /run/risky; mkdir /run/site; netns stays > /run/site/stays.yaml
begin() { rm -f /run/log; "$@" $program up /run/site --socket /run/s > /run/log 2>&1 & up=$!
  timeout 180 sh -c 'until grep -qs ^healing /run/log; do sleep 0.02; done'
  $program --socket /run/s apply -f /run/risky --confirm 1h > /dev/null; ip netns | sort | xargs; }
"#;

#[test]
fn up_takes_back_what_nobody_has_confirmed_when_it_is_stopped_or_its_terminal_is_gone() {
    let said = in_a_network(&format!(
        "{RISKY}
         for signal in INT TERM HUP; do
           begin env --default-signal=HUP; kill -$signal $up; wait $up; echo \"$signal $?\"; ip netns
         done
         sed -n '/^goes back/,/^ /p' /run/log | sed 's/#[0-9]*/#N/'"
    ));
    let one = |signal: &str| format!("risky stays\n{signal} 0\nstays\n");
    let told = "goes back: change #N was not confirmed\n  delete   linux/netns/risky\n";
    assert_eq!(said, format!("{}{}{}{told}", one("INT"), one("TERM"), one("HUP")));
}

#[test]
fn up_that_shall_outlive_its_terminal_does() {
    let said = in_a_network(&format!(
        "{RISKY}
         begin nohup; kill -HUP $up; $program --socket /run/s confirm > /dev/null; $program --socket /run/s wait > /dev/null
         kill -TERM $up; wait $up; echo \"code $?\"; ip netns | sort | xargs; grep -c '^goes back' /run/log || true"
    ));
    assert_eq!(said, "risky stays\ncode 0\nrisky stays\n0\n");
}
