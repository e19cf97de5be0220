//! Queueing disciplines.

use kilter_model::linux::qdisc::{Discipline, Qdisc};
use kilter_model::linux::{Name, NetnsName};
use kilter_scheduler::{Facts, Key};
use rustix::io::Errno;

use crate::netlink::message::u32_at;
use crate::netlink::{Attributes, KernelError, Message, Received, flag, rtnl};
use crate::order::{Order, Site};

const KIND: u16 = 1;
const OPTIONS: u16 = 2;
const TBF_PARMS: u16 = 1;
const TBF_RATE64: u16 = 4;
const TBF_BURST: u16 = 6;
const HTB_INIT: u16 = 2;
const FQ_CODEL_LIMIT: u16 = 2;
const NETEM_LATENCY64: u16 = 10;

const ROOT: u32 = 0xffff_ffff;
const INGRESS: u32 = 0xffff_fff1;
const INGRESS_HANDLE: u32 = 0xffff_0000;
const ETHERNET: u8 = 1;
/// The kernel counts in ticks of 64 ns.
const TICK: u64 = 64;
const SECOND: u64 = 1_000_000_000;

/// Refusals that mean that a discipline is gone already.
const GONE: &[Errno] = &[Errno::NOENT, Errno::NODEV, Errno::INVAL];

/// Attaches a discipline.
pub(crate) fn create(
    site: &mut Site<'_>,
    qdisc: &Qdisc,
    needs: &[(Key, Facts)],
) -> Result<Order, KernelError> {
    let index = site.index(&qdisc.link, needs)?;
    let message = message(rtnl::NEWQDISC, flag::CREATE | flag::EXCL, index, qdisc);
    Ok(Order::new("add qdisc", vec![message]).of_feature(feature(qdisc.discipline)))
}

/// Puts a discipline in the place of another, or changes its numbers.
pub(crate) fn update(
    site: &mut Site<'_>,
    qdisc: &Qdisc,
    needs: &[(Key, Facts)],
) -> Result<Order, KernelError> {
    let index = site.index(&qdisc.link, needs)?;
    let message = message(rtnl::NEWQDISC, flag::CREATE | flag::REPLACE, index, qdisc);
    Ok(Order::new("change qdisc", vec![message]).of_feature(feature(qdisc.discipline)))
}

/// Takes a discipline away.
pub(crate) fn delete(
    site: &mut Site<'_>,
    qdisc: &Qdisc,
    needs: &[(Key, Facts)],
) -> Result<Order, KernelError> {
    let index = match site.index(&qdisc.link, needs) {
        Ok(index) => index,
        Err(KernelError::NoLink { .. }) => return Ok(Order::nothing()),
        Err(error) => return Err(error),
    };
    let message = Message::new(rtnl::DELQDISC, 0).body(&header(index, 0, parent(qdisc)));
    Ok(Order::new("remove qdisc", vec![message]).tolerating(GONE))
}

fn feature(discipline: Discipline) -> Option<&'static str> {
    Some(match discipline {
        Discipline::Tbf => "tbf (CONFIG_NET_SCH_TBF)",
        Discipline::Htb => "htb (CONFIG_NET_SCH_HTB)",
        Discipline::FqCodel => "fq_codel (CONFIG_NET_SCH_FQ_CODEL)",
        Discipline::Netem => "netem (CONFIG_NET_SCH_NETEM)",
        Discipline::Ingress | Discipline::Clsact => "ingress filters (CONFIG_NET_SCH_INGRESS)",
        Discipline::Pfifo | Discipline::Bfifo | Discipline::Mq | Discipline::Noqueue => return None,
    })
}

fn word(discipline: Discipline) -> &'static str {
    match discipline {
        Discipline::Pfifo => "pfifo",
        Discipline::Bfifo => "bfifo",
        Discipline::Tbf => "tbf",
        Discipline::Htb => "htb",
        Discipline::FqCodel => "fq_codel",
        Discipline::Netem => "netem",
        Discipline::Mq => "mq",
        Discipline::Noqueue => "noqueue",
        Discipline::Ingress => "ingress",
        Discipline::Clsact => "clsact",
    }
}

const DISCIPLINES: &[Discipline] = &[
    Discipline::Pfifo,
    Discipline::Bfifo,
    Discipline::Tbf,
    Discipline::Htb,
    Discipline::FqCodel,
    Discipline::Netem,
    Discipline::Mq,
    Discipline::Noqueue,
    Discipline::Ingress,
    Discipline::Clsact,
];

fn is_incoming(discipline: Discipline) -> bool {
    matches!(discipline, Discipline::Ingress | Discipline::Clsact)
}

/// `1:10`, both parts in hexadecimal, as a number.
fn class(text: &str) -> Option<u32> {
    let (major, minor) = text.split_once(':')?;
    let part = |text: &str| if text.is_empty() { Some(0) } else { u32::from_str_radix(text, 16).ok() };
    Some((part(major)? << 16) | (part(minor)? & 0xffff))
}

fn class_text(number: u32) -> Name {
    let (major, minor) = (number >> 16, number & 0xffff);
    if minor == 0 { Name::from(format!("{major:x}:")) } else { Name::from(format!("{major:x}:{minor:x}")) }
}

fn parent(qdisc: &Qdisc) -> u32 {
    if is_incoming(qdisc.discipline) {
        return INGRESS;
    }
    if qdisc.parent == "root" { ROOT } else { class(&qdisc.parent).unwrap_or(ROOT) }
}

fn header(index: u32, handle: u32, parent: u32) -> [u8; 20] {
    let mut header = [0; 20];
    header[4..8].copy_from_slice(&index.to_ne_bytes());
    header[8..12].copy_from_slice(&handle.to_ne_bytes());
    header[12..16].copy_from_slice(&parent.to_ne_bytes());
    header
}

fn message(kind: u16, flags: u16, index: u32, qdisc: &Qdisc) -> Message {
    let handle = match qdisc.handle.as_deref().and_then(class) {
        _ if is_incoming(qdisc.discipline) => INGRESS_HANDLE,
        handle => handle.unwrap_or(0),
    };
    let mut message = Message::new(kind, flags).body(&header(index, handle, parent(qdisc)));
    message.text(KIND, word(qdisc.discipline));
    write_options(&mut message, qdisc);
    message
}

fn write_options(message: &mut Message, qdisc: &Qdisc) {
    match qdisc.discipline {
        Discipline::Pfifo | Discipline::Bfifo => {
            if let Some(limit) = qdisc.limit {
                message.u32(OPTIONS, limit);
            }
        }
        Discipline::Tbf => {
            let rate = qdisc.rate.unwrap_or(0);
            let mut params = [0; 36];
            params[1] = ETHERNET;
            params[8..12].copy_from_slice(&u32::try_from(rate).unwrap_or(u32::MAX).to_ne_bytes());
            params[24..28].copy_from_slice(&qdisc.limit.unwrap_or(0).to_ne_bytes());
            message.nest(OPTIONS, |options| {
                options.bytes(TBF_PARMS, &params);
                if rate > u64::from(u32::MAX) {
                    options.u64(TBF_RATE64, rate);
                }
                options.u32(TBF_BURST, qdisc.burst.unwrap_or(0));
            });
        }
        Discipline::Htb => {
            let mut init = [0; 20];
            init[..4].copy_from_slice(&3_u32.to_ne_bytes());
            init[4..8].copy_from_slice(&10_u32.to_ne_bytes());
            init[8..12].copy_from_slice(&u32::from(qdisc.default_class.unwrap_or(0)).to_ne_bytes());
            message.nest(OPTIONS, |options| options.bytes(HTB_INIT, &init));
        }
        Discipline::FqCodel => {
            if let Some(limit) = qdisc.limit {
                message.nest(OPTIONS, |options| options.u32(FQ_CODEL_LIMIT, limit));
            }
        }
        Discipline::Netem => {
            let mut params = [0; 24];
            let loss = u64::from(qdisc.loss.unwrap_or(0)) * u64::from(u32::MAX) / 1_000_000;
            params[4..8].copy_from_slice(&qdisc.limit.unwrap_or(1000).to_ne_bytes());
            params[8..12].copy_from_slice(&u32::try_from(loss).unwrap_or(u32::MAX).to_ne_bytes());
            message.nest_after(OPTIONS, &params, |options| {
                options.u64(NETEM_LATENCY64, u64::from(qdisc.delay.unwrap_or(0)) * 1000);
            });
        }
        Discipline::Mq | Discipline::Noqueue | Discipline::Ingress | Discipline::Clsact => {}
    }
}

/// A discipline as the kernel tells of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Seen {
    pub(crate) index: u32,
    /// Without the name of its link.
    qdisc: Qdisc,
}

impl Seen {
    /// The discipline as an item.
    pub(crate) fn item(&self, netns: &NetnsName, link: Name) -> Qdisc {
        Qdisc { netns: netns.clone(), link, ..self.qdisc.clone() }
    }
}

/// Reads the message of a discipline; those that the kernel puts in place by itself have no handle and are left out.
pub(crate) fn decode(received: &Received<'_>) -> Option<Seen> {
    if !matches!(received.kind, rtnl::NEWQDISC | rtnl::DELQDISC) {
        return None;
    }
    let header = received.payload.get(..20)?;
    let (index, handle, parent) = (u32_at(header, 4)?, u32_at(header, 8)?, u32_at(header, 12)?);
    let attributes = Attributes::after(received.payload, 20);
    let driver = attributes.get(KIND)?.as_text();
    let discipline = DISCIPLINES.iter().copied().find(|discipline| word(*discipline) == driver)?;
    if handle == 0 {
        return None;
    }
    let mut qdisc = Qdisc {
        netns: NetnsName::host(),
        link: Name::default(),
        parent: match parent {
            _ if is_incoming(discipline) => Name::const_new("ingress"),
            ROOT => Name::const_new("root"),
            class => class_text(class),
        },
        handle: (!is_incoming(discipline)).then(|| class_text(handle)),
        discipline,
        limit: None,
        rate: None,
        burst: None,
        default_class: None,
        delay: None,
        loss: None,
        read: true,
    };
    if let Some(options) = attributes.get(OPTIONS) {
        read_options(&mut qdisc, options.payload);
    }
    Some(Seen { index, qdisc })
}

fn read_options(qdisc: &mut Qdisc, payload: &[u8]) {
    let nested = Attributes(payload);
    match qdisc.discipline {
        Discipline::Pfifo | Discipline::Bfifo => qdisc.limit = u32_at(payload, 0),
        Discipline::Tbf => {
            let Some(params) = nested.get(TBF_PARMS) else { return };
            let rate = nested.get(TBF_RATE64).and_then(|rate| rate.as_u64());
            qdisc.rate = rate.or_else(|| u32_at(params.payload, 8).map(u64::from));
            qdisc.limit = u32_at(params.payload, 24);
            let ticks = u32_at(params.payload, 28).map(u64::from);
            let bytes = |ticks: u64, rate: u64| {
                let exact = u128::from(ticks) * u128::from(TICK) * u128::from(rate);
                u32::try_from((exact + u128::from(SECOND) / 2) / u128::from(SECOND)).ok()
            };
            qdisc.burst = ticks.zip(qdisc.rate).and_then(|(ticks, rate)| bytes(ticks, rate));
        }
        Discipline::Htb => {
            let init = nested.get(HTB_INIT);
            let default = init.and_then(|init| u32_at(init.payload, 8));
            qdisc.default_class = default.and_then(|default| u16::try_from(default).ok());
        }
        Discipline::FqCodel => qdisc.limit = nested.get(FQ_CODEL_LIMIT).and_then(|limit| limit.as_u32()),
        Discipline::Netem => {
            qdisc.limit = u32_at(payload, 4);
            let loss = u32_at(payload, 8).map(u64::from).filter(|loss| *loss != 0);
            let millionths = |loss: u64| u32::try_from((loss * 1_000_000).div_ceil(u64::from(u32::MAX))).ok();
            qdisc.loss = loss.and_then(millionths);
            let delay = Attributes::after(payload, 24).get(NETEM_LATENCY64).and_then(|delay| delay.as_u64());
            qdisc.delay =
                delay.filter(|delay| *delay != 0).and_then(|delay| u32::try_from(delay / 1000).ok());
        }
        Discipline::Mq | Discipline::Noqueue | Discipline::Ingress | Discipline::Clsact => {}
    }
}

/// Asks for every discipline.
pub(crate) fn request_all() -> Message {
    Message::new(rtnl::GETQDISC, 0).body(&header(0, 0, 0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::netlink::message::Messages;

    fn plain(discipline: Discipline) -> Qdisc {
        Qdisc {
            netns: NetnsName::host(),
            link: Name::new("x"),
            parent: Name::const_new(if is_incoming(discipline) { "ingress" } else { "root" }),
            handle: (!is_incoming(discipline)).then(|| Name::const_new("1:")),
            discipline,
            limit: None,
            rate: None,
            burst: None,
            default_class: None,
            delay: None,
            loss: None,
            read: false,
        }
    }

    /// What is sent for a discipline, and that it reads back: handle, parent, the kernel's word, options.
    fn sent(qdisc: &Qdisc) -> (u32, u32, String, Option<Vec<u8>>) {
        let wire = message(rtnl::NEWQDISC, flag::CREATE | flag::EXCL, 7, qdisc).wire();
        let received = Messages(&wire).next().unwrap();
        let seen = decode(&received).unwrap();
        assert_eq!(seen.item(&NetnsName::host(), Name::new("x")), Qdisc { read: true, ..qdisc.clone() });
        let attributes = Attributes::after(received.payload, 20);
        let options = attributes.get(OPTIONS).map(|options| options.payload.to_vec());
        let number = |at: usize| u32_at(received.payload, at).unwrap();
        assert_eq!((number(4), received.kind), (7, rtnl::NEWQDISC));
        (number(8), number(12), attributes.get(KIND).unwrap().as_text(), options)
    }

    #[test]
    fn disciplines_without_options_are_sent_with_their_word_and_place() {
        for (discipline, word) in [(Discipline::Mq, "mq"), (Discipline::Noqueue, "noqueue")] {
            assert_eq!(sent(&plain(discipline)), (0x1_0000, ROOT, word.to_owned(), None));
        }
        for (discipline, word) in [(Discipline::Ingress, "ingress"), (Discipline::Clsact, "clsact")] {
            assert_eq!(sent(&plain(discipline)), (INGRESS_HANDLE, INGRESS, word.to_owned(), None));
        }
    }

    #[test]
    fn fq_codel_is_sent_with_its_limit() {
        let qdisc = Qdisc { limit: Some(77), ..plain(Discipline::FqCodel) };
        let options = [&[8, 0, 2, 0][..], &77_u32.to_ne_bytes()].concat();
        assert_eq!(sent(&qdisc), (0x1_0000, ROOT, "fq_codel".to_owned(), Some(options)));
        assert_eq!(sent(&plain(Discipline::FqCodel)).3, None);
    }

    #[test]
    fn netem_is_sent_as_a_struct_with_its_delay_behind() {
        let qdisc =
            Qdisc { limit: Some(50), delay: Some(20_000), loss: Some(10_000), ..plain(Discipline::Netem) };
        let (_, _, word, options) = sent(&qdisc);
        let options = options.unwrap();
        assert_eq!(word, "netem");
        // struct tc_netem_qopt: latency, limit, loss, gap, duplicate, jitter.
        assert_eq!(u32_at(&options, 0), Some(0));
        assert_eq!(u32_at(&options, 4), Some(50));
        assert_eq!(u32_at(&options, 8), Some(42_949_672), "one in a hundred of all that a number can be");
        assert_eq!(options[12..24], [0; 12]);
        // TCA_NETEM_LATENCY64 in nanoseconds.
        assert_eq!(options[24..28], [12, 0, 10, 0]);
        assert_eq!(options[28..36], 20_000_000_u64.to_ne_bytes());
    }
}
