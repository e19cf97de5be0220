//! The benchmark of publish and subscribe: one case, printed as one JSON line.
//!
//! `bench-pubsub --case a --n 3000`; `cargo xtask bench pubsub` runs the cases one process each. From a commit to its
//! application, at a pace: a) for one subscriber, b) for 50; as fast as they are taken: c) for one, d) for 50; each over
//! every transport, and over the bare transport in the same process. e) the memory of a distributor with n sessions;
//! f) what it costs to catch up with 1000 missed changes among n items; g) a commit for n nodes, without a network.
//! Publisher and subscribers share the process, so its CPU time is that of both.

#![expect(clippy::print_stdout, reason = "the result is the output")]

#[path = "pubsub/bare.rs"]
mod bare;
#[path = "pubsub/catch_up.rs"]
mod catch_up;
#[path = "pubsub/deliver.rs"]
mod deliver;
#[path = "pubsub/many.rs"]
mod many;
mod meter;
#[path = "pubsub/told.rs"]
mod told;
#[path = "pubsub/watch.rs"]
mod watch;

use anyhow::{Context as _, bail};
use deliver::Plan;

/// The allocator of the `kilter` binary.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> anyhow::Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let option = |name: &str| {
        let at = arguments.iter().position(|argument| argument == name);
        at.and_then(|at| arguments.get(at + 1)).map(String::as_str)
    };
    let case = option("--case").context("`--case` is missing")?;
    let size: u64 = option("--n").context("`--n` is missing")?.parse()?;
    let plan = |subscribers| Plan {
        subscribers,
        commits: size,
        // What comes thick and fast is another item every time: a subscriber that is behind must not be spared any.
        items: if matches!(case, "a" | "b") { deliver::ITEMS } else { size },
        nats: option("--nats").map(str::to_owned),
        only: option("--transport").map(str::to_owned),
    };
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    // Whoever commits is a task among the others, as in an agent.
    let line = match case {
        "a" => runtime.block_on(runtime.spawn(deliver::paced(plan(1))))??,
        "b" => runtime.block_on(runtime.spawn(deliver::paced(plan(50))))??,
        "c" => runtime.block_on(runtime.spawn(deliver::flood(plan(1))))??,
        "d" => runtime.block_on(runtime.spawn(deliver::flood(plan(50))))??,
        "e" => runtime.block_on(many::sessions(usize::try_from(size)?))?,
        "f" => catch_up::run(size)?,
        "g" => many::fan_out(size)?,
        other => bail!("unknown case `{other}`, hint: a letter from a to g"),
    };
    println!("{line}");
    Ok(())
}
