//! `explain` in a large network: whatever is not as it should be has a reason that somebody can act on.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::daemon::script;

/// A thousand items: most of them are fine, some wait for each other in chains, some for what nobody declares, some are
/// refused by the kernel.
const THOUSAND: &str = r#"
i=0; while [ $i -lt 340 ]; do
  printf 'kind: bridge\nname: d%s\n---\n' $i
  printf 'kind: macvlan\nname: m%s\nlink: %s\n---\n' $i $(if [ $((i % 3)) = 0 ]; then echo absent$i; else echo d$i; fi)
  printf 'kind: vlan\nname: v%s\nlink: m%s\nid: 7\n---\n' $i $i
  i=$((i+1))
done > /run/site/links.yaml
printf 'kind: sysctl\nname: net.ipv4.ip_forward\nvalue: banana\n' > /run/site/wrong.yaml
"#;

#[test]
fn the_explanation_of_everything_that_is_not_configured_ends_in_a_place_or_an_outer_cause() {
    let said = script(&format!(
        "{THOUSAND}
         begin /run/log1; $program wait --timeout 120s > /dev/null || true
         $program get items --derived -o json > /run/items
         python3 -c 'import json
for item in json.load(open(\"/run/items\"))[\"items\"]:
    if item[\"state\"] != \"CONFIGURED\": print(item[\"key\"])' > /run/keys
         $program status | tail -1 | cut -d: -f1; wc -l < /run/keys
         while read key; do $program explain $key -o json 2>&1 | tr -d '\\n'; echo; done < /run/keys; kill_it"
    ));
    let mut lines = said.lines();
    assert_eq!(lines.next(), Some("1021 items"));
    let unsettled: usize = lines.next().unwrap().trim().parse().unwrap();
    assert!(unsettled > 200, "{unsettled}");
    let mut roots: BTreeMap<String, usize> = BTreeMap::new();
    let mut explained = 0;
    for line in lines {
        // A link that is being tried again derives that it is up; it does so no more when it has failed again.
        if line.starts_with("error: there is no item `linux/up/host/v") {
            explained += 1;
            continue;
        }
        let explanation: Value = serde_json::from_str(line).unwrap_or_else(|_| panic!("{line}"));
        let place = &explanation["declared_by"][0]["place"];
        assert!(place["file"].as_str().is_some_and(|file| file.starts_with("/run/site/")), "{line}");
        let last = explanation["links"].as_array().and_then(|links| links.last().cloned());
        let last = last.unwrap_or_else(|| panic!("{line}"));
        let is_placed = last["place"]["line"].as_u64().is_some();
        let why = last["why"].as_str().unwrap_or_default().to_owned();
        assert!(is_placed || why.contains("nobody declares it") || why.contains("EINVAL"), "{line}");
        let root = if why.contains("nobody declares it") { "absent" } else { "refused" };
        *roots.entry(root.to_owned()).or_default() += 1;
        explained += 1;
    }
    assert_eq!(explained, unsettled);
    assert!(roots["absent"] >= 200 && roots["refused"] >= 1, "{roots:?}");
}

#[test]
fn who_changed_an_item_last_and_its_last_error_are_known_after_a_restart() {
    let said = script(
        "begin /run/log1; netns told > /run/told; $program apply -f /run/told > /run/out; made=$(txn_of /run/out)
         printf 'kind: sysctl\nname: net.ipv4.ip_forward\nvalue: banana\n' > /run/wrong
         $program apply -f /run/wrong --on-failure continue > /dev/null; $program source remove cli --yes > /dev/null
         $program apply -f /run/told > /run/out; again=$(txn_of /run/out)
         $program explain linux/netns/told > /run/before
         kill_it; begin /run/log2; $program wait > /dev/null; $program explain linux/netns/told | diff /run/before - && echo the same
         grep -c \"last change: create by a declaration in txn #$again,\" /run/before; test $again -gt $made && echo the later one
         $program explain linux/sysctl/host/net.ipv4.ip_forward | grep -o 'last error: .*EINVAL'; end",
    );
    let (told, error) = said.split_once("last error: ").unwrap_or_else(|| panic!("{said}"));
    assert_eq!(told, "the same\n1\nthe later one\n");
    assert!(error.ends_with("EINVAL\ncode 0\n"), "{said}");
}

#[test]
fn what_somebody_else_did_is_said_and_what_is_left_alone_has_a_way_out() {
    let said = script(
        "printf '[drift]\nfight = 3\nbackoff = \"1ms\"\nbackoff-cap = \"1ms\"\n' >> /run/kilter.toml
         netns one > /run/site/one.yaml; netns two > /run/site/two.yaml; begin /run/log1
         ip link add theirs type bridge; until_true \"$program explain linux/link/host/theirs 2> /dev/null | grep -q last\"
         $program explain linux/link/host/theirs | grep -o 'last change: [a-z]* by somebody else'
         $program pause linux/netns/one > /dev/null
         $program explain linux/netns/one | grep -o 'healing of it is paused\\|to do: .*'
         until_true \"ip netns delete two 2> /dev/null; $program explain linux/netns/two | grep -q 'stop whoever else'\"
         $program explain linux/netns/two | grep -o 'to do: stop.*'; end",
    );
    let expected = "last change: observe by somebody else\nhealing of it is paused\n\
                    to do: let it be healed again: kilter resume linux/netns/one\n\
                    to do: stop whoever else keeps changing it, then apply it again\ncode 0\n";
    assert_eq!(said, expected);
}
