//! The socket against the kernel, in a namespace of the test's own.

use super::*;
use crate::netlink::rtnl;

fn in_a_fresh_namespace(test: impl FnOnce(&mut Requests) + Send) {
    let done = crate::space::on_a_thread(|| {
        crate::sandbox::enter_fresh_namespace()?;
        test(&mut Requests::open(Arc::default())?);
        Ok(())
    });
    done.unwrap();
}

/// A blackhole route to `10.x.y.0/24`.
fn blackhole(at: u32, flags: u16) -> Message {
    let [.., high, low] = at.to_be_bytes();
    let body = [2, 24, 0, 0, 254, 75, 0, 6, 0, 0, 0, 0];
    let mut message = Message::new(rtnl::NEWROUTE, flags | flag::CREATE).body(&body);
    message.bytes(1, &[10, high, low, 0]);
    message
}

fn routes(requests: &mut Requests) -> usize {
    try_routes(requests).unwrap()
}

fn try_routes(requests: &mut Requests) -> Result<usize, Refusal> {
    let mut all = Message::new(rtnl::GETROUTE, 0).body(&[2, 0, 0, 0, 0, 75, 0, 0, 0, 0, 0, 0]);
    all.u32(15, 254);
    requests.dump(&all, || 0, |count, _| *count += 1)
}

#[test]
fn a_batch_is_sent_in_few_calls_and_each_failure_is_attributed() {
    in_a_fresh_namespace(|requests| {
        let mut batch: Vec<Message> = (0..200).map(|at| blackhole(at, flag::EXCL)).collect();
        batch[3] = blackhole(2, flag::EXCL);
        batch[199] = blackhole(5, flag::EXCL);
        let failed: Vec<usize> = requests
            .change(&batch)
            .iter()
            .enumerate()
            .filter_map(|(at, result)| result.as_ref().err().map(|_| at))
            .collect();
        assert_eq!(failed, [3, 199]);
        let counts = requests.counters.seen();
        assert_eq!((counts.writes, counts.sends), (200, 4));
        assert_eq!(routes(requests), 198);
    });
}

#[test]
fn the_kernel_says_in_words_what_is_wrong() {
    in_a_fresh_namespace(|requests| {
        let mut dummy = Message::new(rtnl::NEWLINK, flag::CREATE | flag::EXCL).body(&[0; 16]);
        dummy.nest(18, |info| info.text(1, "nonesuch"));
        let refusal = requests.change_one(&dummy).unwrap_err();
        assert_eq!(refusal.to_string(), "not supported (EOPNOTSUPP): Unknown device type");
        assert!(refusal.is_unsupported() && !refusal.is_retriable());
    });
}

#[test]
fn what_is_not_there_is_no_error() {
    in_a_fresh_namespace(|requests| {
        let mut link = Message::new(rtnl::GETLINK, 0).body(&[0; 16]);
        link.text(3, "nonesuch");
        assert_eq!(requests.read(&link, |_| Some(())).unwrap(), None);
        let mut link = Message::new(rtnl::GETLINK, 0).body(&[0; 16]);
        link.text(3, "lo");
        assert_eq!(requests.read(&link, |_| Some(())).unwrap(), Some(()));
    });
}

#[test]
fn a_dump_that_others_disturb_is_made_again() {
    in_a_fresh_namespace(|requests| {
        let batch: Vec<Message> = (0..4000).map(|at| blackhole(at, 0)).collect();
        requests.change(&batch);
        let stop = std::sync::atomic::AtomicBool::new(false);
        let handle = std::fs::File::open("/proc/thread-self/ns/net").unwrap();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let churn = || {
                    let mut other = Requests::open(Arc::default()).unwrap();
                    while !stop.load(Ordering::Relaxed) {
                        other.change_one(&blackhole(5000, 0)).unwrap();
                        let gone = blackhole(5000, 0);
                        let mut wire = gone.wire();
                        wire[4..6].copy_from_slice(&rtnl::DELROUTE.to_ne_bytes());
                        other.out = wire;
                        other.send().unwrap();
                    }
                };
                crate::space::inside(&handle, churn).unwrap();
            });
            for _ in 0..50 {
                match try_routes(requests) {
                    Ok(found) => assert!((4000..=4001).contains(&found), "{found}"),
                    Err(refusal) => assert!(refusal.is(Errno::AGAIN), "{refusal}"),
                }
            }
            stop.store(true, Ordering::Relaxed);
        });
    });
}

/// One message of a dump that was interrupted.
fn interrupted(kind: u16, seq: [u8; 4]) -> Vec<u8> {
    const MULTI: u16 = 2;
    let flags = (MULTI | flag::DUMP_INTERRUPTED).to_ne_bytes();
    let mut message = [&20_u32.to_ne_bytes()[..], &kind.to_ne_bytes(), &flags, &seq].concat();
    message.resize(20, 0);
    message
}

#[test]
fn a_dump_that_is_interrupted_each_time_is_an_error_that_may_go_away() {
    in_a_fresh_namespace(|requests| {
        let pair =
            rustix::net::socketpair(AddressFamily::UNIX, SocketType::DGRAM, SocketFlags::CLOEXEC, None);
        let (near, far) = pair.unwrap();
        requests.socket = near;
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let mut buffer = [0; 4096];
                for _ in 0..DUMPS {
                    let (length, _) = rustix::net::recv(&far, &mut buffer, RecvFlags::empty()).unwrap();
                    assert!(length >= 16);
                    let seq = buffer[8..12].try_into().unwrap();
                    let answer = [interrupted(rtnl::NEWROUTE, seq), interrupted(control::DONE, seq)].concat();
                    rustix::net::send(&far, &answer, SendFlags::empty()).unwrap();
                }
            });
            let refusal = try_routes(requests).unwrap_err();
            assert!(refusal.is(Errno::AGAIN) && refusal.is_retriable(), "{refusal}");
            assert!(refusal.to_string().contains("the table changed while it was read, 8 times in a row"));
        });
    });
}

#[test]
fn a_closed_ear_is_no_success() {
    in_a_fresh_namespace(|requests| {
        let pair =
            rustix::net::socketpair(AddressFamily::UNIX, SocketType::DGRAM, SocketFlags::CLOEXEC, None);
        let (near, far) = pair.unwrap();
        drop(far);
        requests.socket = near;
        assert!(requests.change(&[blackhole(1, 0), blackhole(2, 0)]).iter().all(Result::is_err));
    });
}
