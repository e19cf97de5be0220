//! Plans a document offline: nothing is made, nothing is read. Run it with
//! `cargo run -p kilter-model --example plan -- crates/model/examples/documents/two-hosts-and-a-router.yaml`.

#![expect(clippy::print_stdout, reason = "an example talks to the person who runs it")]

use kilter_model::document::{Declared, Source, read};
use kilter_model::kinds::descriptors;
use kilter_scheduler::{Scheduler, Step, Timestamp, Txn};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let names = std::env::args().skip(1);
    let sources: Vec<Source> = names
        .map(|name| Ok(Source::new(&name, std::fs::read_to_string(&name)?)))
        .collect::<std::io::Result<_>>()?;
    let declared = match read(&sources) {
        Ok(declared) => declared,
        Err(problems) => {
            println!("{problems}");
            std::process::exit(1);
        }
    };

    let mut scheduler = Scheduler::default();
    for descriptor in descriptors()? {
        scheduler.register(descriptor)?;
    }
    scheduler.begin(Txn::changes(declared.iter().map(Declared::change).collect()), Timestamp(0));
    for step in scheduler.plan().map_or(&[] as &[Step], |plan| &plan.steps) {
        println!("{:<8} {:<44} → {}", step.action.name(), step.key, step.after.state);
    }
    Ok(())
}
