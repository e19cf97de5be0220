//! The commands of the scripts about the event loop.

use crate::scenario::command::{HowMuch, Operation, Span};

/// A command of a script.
#[derive(goldenscript::Command)]
pub enum Command {
    /// `handlers NAME…`: the handlers, in order; `one two three` unless told.
    Handlers(Vec<String>),
    /// `sources NAME…`: the external sources, in order; `file api flow` unless told.
    Sources(Vec<String>),
    /// `set name=value…`: settings, before anything else happens.
    Set(Vec<(String, String)>),
    /// `event NAME [mode=best-effort|ignore|revert|full|upstream|downstream] [direction=reverse] HANDLER="deed; deed"…`.
    Event(String, #[arg(optional)] Vec<(String, String)>),
    /// `push EVENT…`: pushes events, nobody waits.
    Push(Vec<String>),
    /// `call EVENT…`: pushes events, and somebody waits for each.
    Call(Vec<String>),
    /// `resync [local]`: pushes a database resync with all inputs.
    Resync(Option<String>),
    /// `input HANDLER KEY name=text…`: the outside says something; the next resync carries it.
    Input(String, String, #[arg(optional)] Vec<(String, String)>),
    /// `change HANDLER KEY name=text…`: an input changes, and the loop is told.
    Change(String, String, #[arg(optional)] Vec<(String, String)>),
    /// `withdraw HANDLER KEY`: an input is gone, and the loop is told.
    Withdraw(String, String),
    /// `external SOURCE KEY name=text…`: a source declares an item.
    External(String, String, #[arg(optional)] Vec<(String, String)>),
    /// `unexternal SOURCE KEY`: a source takes it back.
    Unexternal(String, String),
    /// `external-resync SOURCE KEY…`: a source declares exactly these items.
    #[command(name = "external-resync")]
    ExternalResync(String, #[arg(optional)] Vec<String>),
    /// `declare SOURCE KEY name=text…`: a source declares an item, all or nothing.
    Declare(String, String, #[arg(optional)] Vec<(String, String)>),
    /// `undeclare SOURCE KEY`: a source takes it back, all or nothing.
    Undeclare(String, String),
    /// `declare-all SOURCE KEY…`: a source declares exactly these items, best effort.
    #[command(name = "declare-all")]
    DeclareAll(String, #[arg(optional)] Vec<String>),
    /// `leave SOURCE`: a source declares nothing any more, and loses its place.
    Leave(String),
    /// `preview SOURCE KEY name=text…`: what would be done if a source declared an item.
    Preview(String, String, #[arg(optional)] Vec<(String, String)>),
    /// `observe KEY name=text…`: a foreign item appears.
    Observe(String, #[arg(optional)] Vec<(String, String)>),
    /// `unobserve KEY…`: foreign items go away.
    Unobserve(Vec<String>),
    /// `lose KEY…`: items vanish behind the agent's back.
    Lose(Vec<String>),
    /// `drift KEY…`: whoever watches the world says that these items are not as they should be.
    Drift(Vec<String>),
    /// `fail ACTION KEY "message" [effect=…] [times=N]`: an operation fails.
    Fail {
        /// The operation.
        action: Operation,
        /// The item.
        key: String,
        /// What the agent is told.
        message: String,
        /// What really happens.
        #[arg(key, optional)]
        effect: HowMuch,
        /// How often; once unless told.
        #[arg(key)]
        times: Option<u32>,
    },
    /// `break HANDLER update|resync|revert|handles plain|abort|fatal|panic "message" [times=N]`: a handler goes wrong.
    Break {
        /// The handler.
        handler: String,
        /// Which call.
        call: String,
        /// How.
        how: String,
        /// What it says.
        message: String,
        /// How often; once unless told.
        #[arg(key)]
        times: Option<usize>,
    },
    /// `slow HANDLER SPAN`: the next call takes this long.
    Slow(String, Span),
    /// `ended NUMBER text`: the result of an effect comes back.
    Ended(u64, String),
    /// `shutdown`: pushes a shutdown, and somebody waits for it.
    Shutdown,
    /// `run`: lets the loop do everything that is ready.
    Run,
    /// `advance SPAN`: lets time pass, and the loop do what is due.
    Advance(Span),
    /// `pass SPAN`: time passes, and nobody asks the loop.
    Pass(Span),
    /// `at-startup HANDLER EVENT`: a follow-up to the startup resync.
    #[command(name = "at-startup")]
    AtStartup(String, String),
    /// `drop`: drops the loop.
    Drop,
    /// `banners`: shows banners from here on.
    Banners,
    /// `world`: everything that exists.
    World,
    /// `state HANDLER`: what a handler wants.
    State(String),
    /// `provenance KEY`: who declares an item.
    Provenance(String),
    /// `health`: every component, and whether the agent is live and ready.
    Health,
    /// `counts`: what was counted.
    Counts,
    /// `history [seq=N] [from=N to=N] [since=SPAN] [until=SPAN] [first=N] [last=N]`; spans are since the start.
    History(#[arg(optional)] Vec<(String, String)>),
    /// `record NUMBER`: one record as JSON, without times and transaction, on one line.
    Record(u64),
}
