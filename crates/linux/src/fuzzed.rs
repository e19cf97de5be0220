//! What a fuzzer calls: every decoder over whatever bytes, as far as items.

use kilter_model::declare::Declare as _;
use kilter_model::linux::{Link, LinkRef, Name, NetnsName, keys};

use crate::netlink::message::Messages;
pub use crate::netlink::socket::decode_refusals;
pub use crate::survey::read_after;
use crate::{address, fdb, link, neighbour, nftables, port, qdisc, route, rule, survey};

/// Whatever a kernel may tell about any kind; gives how many items it makes of it.
pub fn decode_events(bytes: &[u8]) -> usize {
    let netns = NetnsName::host();
    let mut count = 0;
    for received in Messages(bytes) {
        let name = |index: u32| Some(Name::new(index.to_string()));
        if let Some(seen) = link::read::decode(&received) {
            let (lower, primary) = (seen.lower.map(|index| LinkRef::here(index.to_string())), name(1));
            let link = Link {
                name: seen.name.clone(),
                netns: netns.clone(),
                kind: seen.link_kind(lower, primary),
                fields: seen.fields(),
            };
            count += usize::from(!keys::link(&netns, &link.name).as_str().is_empty());
        }
        count += usize::from(port::decode(&received).is_some());
        let keys = [
            route::decode(&received, &netns).map(|seen| seen.named(name).key()),
            rule::decode(&received, &netns).map(|(rule, _)| rule.key()),
            neighbour::decode(&received).and_then(|seen| seen.item(&netns, name(1)?)).map(|item| item.key()),
            fdb::decode(&received).and_then(|seen| Some(seen.item(&netns, name(1)?).key())),
            qdisc::decode(&received).and_then(|seen| Some(seen.item(&netns, name(1)?).key())),
        ];
        count += keys.iter().flatten().count();
        count += usize::from(address::decode(&received).is_some());
        count += usize::from(nftables::decode(&received).is_some());
        count += usize::from(nftables::decode_told(&received).is_some());
        count += usize::from(survey::decode_number(&received).is_some());
    }
    count
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The seeds of the fuzzer: what a kernel sent, by name.
    fn seeds() -> Vec<(String, Vec<u8>)> {
        let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/netlink");
        let mut seeds: Vec<(String, Vec<u8>)> = std::fs::read_dir(folder)
            .unwrap()
            .map(|entry| entry.unwrap())
            .map(|entry| (entry.file_name().into_string().unwrap(), std::fs::read(entry.path()).unwrap()))
            .collect();
        seeds.sort();
        assert!(seeds.len() >= 25, "the seeds are there");
        seeds
    }

    #[test]
    fn every_seed_of_the_netlink_fuzzer_says_something() {
        for (name, bytes) in seeds() {
            let (items, refusals) = (decode_events(&bytes), decode_refusals(&bytes));
            match name.as_str() {
                "acknowledged" => assert_eq!(refusals, 0, "{name}"),
                name if name.starts_with("refusal") => assert_eq!(refusals, 1, "{name}"),
                name => assert!(items > 0, "{name}"),
            }
        }
    }

    #[test]
    fn every_seed_is_read_behind_every_other_as_by_itself() {
        let seeds = seeds();
        for (name, before) in &seeds {
            for (other, after) in &seeds {
                assert!(read_after(before, after), "{other} after {name}");
            }
        }
    }

    #[test]
    fn a_seed_that_is_cut_or_changed_anywhere_does_not_panic() {
        for (_, bytes) in seeds() {
            for at in (0..bytes.len()).step_by(3) {
                decode_refusals(&bytes[..at]);
                decode_events(&bytes[..at]);
                let mut changed = bytes.clone();
                changed[at] = changed[at].wrapping_add(0x7f);
                decode_refusals(&changed);
                decode_events(&changed);
                assert!(read_after(&bytes, &changed));
            }
        }
    }
}
