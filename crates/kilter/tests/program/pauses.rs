//! `pause` and `resume`: what somebody changes stays as it is until it is resumed, and what is not paused is healed meanwhile.

use crate::daemon::script;

/// Three routes and a bridge, and how each is seen. `heard` waits until the agent has heard of everything before: it heals
/// what is not paused.
const SITE: &str = "
route() { printf 'kind: route\\ndestination: 10.%s.0.0/16\\ntype: blackhole\\n' $1; }
for one in 1 2 3; do route $one > /run/site/$one.yaml; done
printf 'kind: bridge\\nname: br0\\nmtu: 1400\\naddr-gen-mode: none\\n' > /run/site/br0.yaml
routes() { ip route show type blackhole | grep -o '10\\.[0-9]*' | sort | xargs; }
heard() { ip route del blackhole 10.3.0.0/16; until_true 'ip route show type blackhole | grep -q 10.3.0.0'; }
mtu() { ip link show dev br0 | grep -o 'mtu [0-9]*'; }
told() { $program explain $1 | grep -o 'healing of it is paused\\|to do: .*'; }
begin /run/log1
";

fn site(lines: &str) -> String {
    script(&format!("{SITE}\n{lines}"))
}

#[test]
fn a_paused_item_stays_gone_until_it_is_resumed() {
    let said = site(
        "key=linux/route/host/main/10.1.0.0/16/0
         $program pause $key
         ip route del blackhole 10.1.0.0/16; heard; routes
         $program status --agent | grep paused; told $key
         told linux/route/host/main/10.2.0.0/16/0 || echo not of another
         $program resume $key
         until_true 'ip route show type blackhole | grep -q 10.1.0.0'; routes; told $key || echo nothing to do
         # What is not paused any more is healed by itself.
         ip route del blackhole 10.1.0.0/16; until_true 'ip route show type blackhole | grep -q 10.1.0.0'; end",
    );
    assert_eq!(
        said,
        "paused: linux/route/host/main/10.1.0.0/16/0\n10.2 10.3\n\
         paused: linux/route/host/main/10.1.0.0/16/0\n\
         healing of it is paused\nto do: let it be healed again: kilter resume linux/route/host/main/10.1.0.0/16/0\n\
         not of another\nnothing is paused\n10.1 10.2 10.3\nnothing to do\ncode 0\n"
    );
}

#[test]
fn everything_below_a_paused_prefix_stays_as_it_was_changed_until_it_is_resumed() {
    let said = site(
        "$program pause linux/link/
         ip link set br0 mtu 1300; heard; mtu
         $program status --agent | grep paused; told linux/link/host/br0
         # A wrong word resumes nothing.
         $program resume linux/link/host/br0; heard; mtu
         $program resume linux/link/
         until_true 'ip link show dev br0 | grep -q mtu.1400'; mtu; told linux/link/host/br0 || echo nothing to do
         ip link del br0; until_true 'ip link show dev br0 2> /dev/null | grep -q mtu.1400'; end",
    );
    assert_eq!(
        said,
        "paused: linux/link/\nmtu 1300\npaused: linux/link/\n\
         healing of it is paused\nto do: let it be healed again: kilter resume linux/link/\n\
         paused: linux/link/\nmtu 1300\nnothing is paused\nmtu 1400\nnothing to do\ncode 0\n"
    );
}
