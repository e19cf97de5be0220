//! Kinds that another process makes real, over the agent's socket.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use kilter_api::client::{Client, channel, connect};
use kilter_api::v1::actuator_asked::What as Asked;
use kilter_api::v1::actuator_says::What as Says;
use kilter_api::v1::actuators_client::ActuatorsClient;
use kilter_api::v1::operation_answer::How;
use kilter_api::v1::remote_operation::What as Wanted;
use kilter_api::v1::{self, need_rule, plan_request, progress};
use kilter_scheduler::State;
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio_stream::wrappers::UnboundedReceiverStream;
use tonic::Status;

use crate::house::House;
use crate::http::PATIENCE;
use crate::served::Served;

/// What the process has in its world, and what was asked of it.
#[derive(Default)]
pub(crate) struct Shelves {
    pub(crate) there: BTreeMap<String, Value>,
    asked: Vec<String>,
    read: Vec<String>,
    /// How often the creation of an item still fails.
    pub(crate) fails: BTreeMap<String, u32>,
    /// Whether it says what it was told when something is wrong.
    pub(crate) blabs: bool,
}

/// A process that puts shelves on walls.
pub(crate) struct Carpenter {
    shelves: Arc<Mutex<Shelves>>,
    manners: Arc<Manners>,
    says: mpsc::UnboundedSender<v1::ActuatorSays>,
    working: JoinHandle<()>,
}

/// How the process behaves.
#[derive(Default)]
struct Manners {
    /// It says nothing at all.
    hangs: AtomicBool,
    /// It says that it is alive, and answers nothing.
    idles: AtomicBool,
    /// Before it next answers, it says that it noticed something.
    notices: AtomicBool,
}

impl Manners {
    fn allow(&self, answer: &Says) -> bool {
        let is_life = matches!(answer, Says::Alive(_));
        !self.hangs.load(Ordering::SeqCst) && (is_life || !self.idles.load(Ordering::SeqCst))
    }

    /// What it says before an answer.
    fn first(&self, answer: &Says) -> Option<Says> {
        let names = vec!["top".to_owned()];
        let noticed = || Says::Noticed(v1::NoticedItems { kind: "shop.shelf".to_owned(), names });
        let is_answer = matches!(answer, Says::Answer(_));
        (is_answer && self.notices.swap(false, Ordering::SeqCst)).then(noticed)
    }
}

/// As long as an operation may take where nobody hangs.
const WITHIN: Duration = Duration::from_secs(30);

fn says(what: Says) -> v1::ActuatorSays {
    v1::ActuatorSays { what: Some(what) }
}

/// A shelf needs its wall, and boards of a shelf are shelves of their own.
fn kind() -> v1::RemoteKind {
    let wall = v1::NeedRule { what: Some(need_rule::What::On("a/{wall}".to_owned())), to_create: false };
    let board = json!({ "kind": "shop.board", "name": "{name}-{each}", "of": "{name}" });
    v1::RemoteKind {
        kind: "shop.shelf".to_owned(),
        about: "A shelf on a wall.".to_owned(),
        schema: json!({ "properties": { "wide": { "type": "integer" } }, "required": ["wide"] }).to_string(),
        needs: vec![wall],
        derived: vec![v1::DerivedRule { each: "boards".to_owned(), item: board.to_string() }],
        recreate_on: vec!["wall".to_owned()],
        checks: true,
        ..v1::RemoteKind::default()
    }
}

impl Carpenter {
    /// Attaches to an agent.
    pub(crate) async fn attach(room: &Room, shelves: Arc<Mutex<Shelves>>) -> Result<Self, Status> {
        Self::attach_within(room, shelves, WITHIN).await
    }

    /// Attaches to an agent that gives up an operation after this long.
    async fn attach_within(
        room: &Room,
        shelves: Arc<Mutex<Shelves>>,
        within: Duration,
    ) -> Result<Self, Status> {
        let mut client = ActuatorsClient::new(channel(&room.socket).await.unwrap());
        let (sender, receiver) = mpsc::unbounded_channel();
        let board = v1::RemoteKind { kind: "shop.board".to_owned(), ..v1::RemoteKind::default() };
        let register = v1::RegisterKinds {
            name: "carpenter".to_owned(),
            kinds: vec![kind(), board],
            within: Some(within.try_into().unwrap()),
        };
        sender.send(says(Says::Register(register))).unwrap();
        let mut asked = client.attach(UnboundedReceiverStream::new(receiver)).await?.into_inner();
        let manners = Arc::new(Manners::default());
        let (own, mannered, answers) = (Arc::clone(&shelves), Arc::clone(&manners), sender.clone());
        let working = tokio::spawn(async move {
            while let Ok(Some(v1::ActuatorAsked { what: Some(asked) })) = asked.message().await {
                for answer in work(&own, asked).into_iter().filter(|answer| mannered.allow(answer)) {
                    for said in mannered.first(&answer).into_iter().chain([answer]) {
                        let _ = answers.send(says(said));
                    }
                }
            }
        });
        Ok(Self { shelves, manners, says: sender, working })
    }

    pub(crate) fn shelves(&self) -> MutexGuard<'_, Shelves> {
        self.shelves.lock().unwrap()
    }

    /// The process is gone from one moment to the next; its world stays.
    async fn die(self) -> Arc<Mutex<Shelves>> {
        self.working.abort();
        let _ = self.working.await;
        self.shelves
    }
}

/// What the process does about what it is asked.
fn work(shelves: &Mutex<Shelves>, asked: Asked) -> Vec<Says> {
    match asked {
        Asked::Registered(_) => Vec::new(),
        Asked::Alive(alive) => vec![Says::Alive(alive)],
        Asked::Check(v1::CheckItems { id, items }) => {
            let blabs = shelves.lock().unwrap().blabs;
            let blabbed =
                |why: &str, item: &str| if blabs { format!("{why}: {item}") } else { why.to_owned() };
            let is_wrong = |item: &String| item.contains("\"crooked\"");
            let wrong = (0_u32..).zip(&items).filter(|(_, item)| is_wrong(item));
            let wrong = wrong.map(|(item, _)| v1::WrongField {
                item,
                field: "look".to_owned(),
                message: blabbed("must be straight", &items[item as usize]),
            });
            vec![Says::Checked(v1::Checked { id, wrong: wrong.collect() })]
        }
        Asked::Batch(batch) => batch
            .operations
            .into_iter()
            .map(|operation| {
                let how = Some(act(&mut shelves.lock().unwrap(), &operation));
                Says::Answer(v1::OperationAnswer { id: operation.id, how })
            })
            .collect(),
    }
}

fn act(shelves: &mut Shelves, operation: &v1::RemoteOperation) -> How {
    let key = operation.key.clone();
    let read = |text: &str| serde_json::from_str(text).unwrap();
    let done = || How::Done(v1::OperationDone { facts: "screwed".to_owned() });
    let found = |key: &String, value: &Value| v1::FoundItem {
        name: key.rsplit('/').next().unwrap().to_owned(),
        value: value.to_string(),
        ..v1::FoundItem::default()
    };
    let (word, answer) = match operation.what.as_ref().unwrap() {
        Wanted::Create(create) if shelves.fails.get(&key).is_some_and(|times| *times > 0) => {
            shelves.fails.entry(key).and_modify(|times| *times -= 1);
            let told = if shelves.blabs { &create.value } else { "" };
            let failed = v1::OperationFailed { message: format!("the wall is wet{told}"), lasting: false };
            ("fail to create", How::Failed(failed))
        }
        Wanted::Create(create) => {
            shelves.there.insert(key, read(&create.value));
            ("create", done())
        }
        Wanted::Update(update) => {
            assert_eq!(operation.facts, "screwed", "what it taught comes back");
            shelves.there.insert(key, read(&update.new));
            ("update", done())
        }
        Wanted::Delete(_) => {
            shelves.there.remove(&key);
            ("delete", done())
        }
        Wanted::Retrieve(_) => {
            shelves.read.push(format!("retrieve {key}"));
            let items = shelves.there.get_key_value(&key).map(|(key, value)| found(key, value));
            return How::Found(v1::ItemsFound { items: items.into_iter().collect() });
        }
        Wanted::RetrieveAll(_) => {
            shelves.read.push("retrieve everything".to_owned());
            let of_kind = format!("{}/", operation.kind.replace('.', "/"));
            let items = shelves.there.iter().filter(|(key, _)| key.starts_with(&of_kind));
            return How::Found(v1::ItemsFound {
                items: items.map(|(key, value)| found(key, value)).collect(),
            });
        }
    };
    shelves.asked.push(format!("{word} {}", operation.key));
    answer
}

/// An agent that is reached over its socket.
pub(crate) struct Room {
    pub(crate) served: Served,
    socket: std::path::PathBuf,
    pub(crate) client: Client,
}

impl Room {
    pub(crate) async fn open() -> Self {
        Self::over(House::start()).await
    }

    /// An agent that runs already.
    pub(crate) async fn over(house: House) -> Self {
        let served = Served::over(house);
        let socket = served.folder.path().join("kilter.sock");
        let client = connect(&socket).await.unwrap();
        Self { served, socket, client }
    }

    pub(crate) fn house(&self) -> &House {
        &self.served.house
    }

    /// Declares shelves over the socket, in place of those that were; the outcome, or the problem.
    pub(crate) async fn declare(&self, shelves: &[Value]) -> Result<v1::Ended, Status> {
        match self.apply(shelves, v1::OnFailure::Continue, None).await?.pop() {
            Some(progress::What::Ended(ended)) => Ok(ended),
            other => panic!("the end comes last: {other:?}"),
        }
    }

    /// Declares shelves over the socket, in place of those that were; everything that is told.
    pub(crate) async fn apply(
        &self,
        shelves: &[Value],
        on_failure: v1::OnFailure,
        retry: Option<v1::RetryRule>,
    ) -> Result<Vec<progress::What>, Status> {
        self.apply_by(shelves, on_failure, v1::ApplyRequest { retry, ..v1::ApplyRequest::default() }).await
    }

    /// The same by rules of the caller's.
    pub(crate) async fn apply_by(
        &self,
        shelves: &[Value],
        on_failure: v1::OnFailure,
        rules: v1::ApplyRequest,
    ) -> Result<Vec<progress::What>, Status> {
        let items = shelves.iter().map(|shelf| v1::DeclaredItem {
            kind: shelf["kind"].as_str().unwrap_or("shop.shelf").to_owned(),
            value: shelf.to_string(),
            ..v1::DeclaredItem::default()
        });
        let declaration = v1::Declaration {
            source: "room".to_owned(),
            items: items.collect(),
            everything: true,
            ..v1::Declaration::default()
        };
        let what = Some(plan_request::What::Declaration(declaration));
        let request = Some(v1::PlanRequest { what, on_failure: on_failure.into() });
        let request = v1::ApplyRequest { request, ..rules };
        let mut telling = self.client.clone().apply(request).await?.into_inner();
        let mut told = Vec::new();
        while let Some(progress) = telling.message().await? {
            told.extend(progress.what);
        }
        Ok(told)
    }

    pub(crate) async fn until(&self, key: &str, state: State) {
        let reached = async {
            while self.house().state(key).await != state {
                tokio::time::sleep(Duration::from_millis(5)).await; // poll, until the deadline
            }
        };
        let reached = tokio::time::timeout(PATIENCE, reached).await;
        assert!(reached.is_ok(), "`{key}` does not become {state:?}");
    }

    pub(crate) async fn reason(&self, key: &str) -> String {
        let key = key.to_owned();
        self.house().desk.inquire(move |view| view.scheduler.explain(&key).to_string()).await.unwrap()
    }

    async fn troubles(&self) -> Vec<String> {
        let health = self.client.clone().get_health(v1::GetHealthRequest::default()).await;
        health.unwrap().into_inner().troubles
    }

    pub(crate) async fn close(self) {
        self.served.end().await;
    }
}

#[tokio::test]
async fn a_process_describes_a_kind_and_makes_it_real() {
    let room = Room::open().await;
    let carpenter = Carpenter::attach(&room, Arc::default()).await.ok().unwrap();
    let shelf = json!({ "name": "top", "wide": 3, "wall": "left", "boards": ["low", "high"] });
    room.declare(&[shelf]).await.unwrap();
    assert_eq!(room.house().state("shop/shelf/top").await, State::Pending);
    assert!(room.reason("shop/shelf/top").await.contains("a/left"), "its rule says what it needs");
    room.house().apply("walls", &["a/left"]).await.unwrap();
    for key in ["shop/shelf/top", "shop/board/top-low", "shop/board/top-high"] {
        assert_eq!(room.house().state(key).await, State::Configured, "{key}");
    }
    assert_eq!(carpenter.shelves().there["shop/board/top-low"], json!({ "name": "top-low", "of": "top" }));

    carpenter.shelves().asked.clear();
    let wider = json!({ "name": "top", "wide": 4, "wall": "left", "boards": ["low"] });
    room.declare(&[wider]).await.unwrap();
    assert_eq!(carpenter.shelves().asked, ["delete shop/board/top-high", "update shop/shelf/top"]);
    carpenter.shelves().asked.clear();
    room.house().apply("walls", &["a/right"]).await.unwrap();
    room.declare(&[json!({ "name": "top", "wide": 4, "wall": "right" })]).await.unwrap();
    assert_eq!(
        carpenter.shelves().asked,
        ["delete shop/board/top-low", "delete shop/shelf/top", "create shop/shelf/top"],
        "a field that cannot be changed in place"
    );
    room.declare(&[]).await.unwrap();
    assert!(carpenter.shelves().there.is_empty());
    let kinds = room.client.clone().list_kinds(v1::ListKindsRequest::default()).await.unwrap().into_inner();
    assert!(kinds.kinds.iter().any(|kind| kind.word == "shop.shelf" && kind.schema.contains("wide")));
    room.close().await;
}

#[tokio::test]
async fn what_is_wrong_is_told_by_the_schema_and_by_the_process() {
    let room = Room::open().await;
    let _carpenter = Carpenter::attach(&room, Arc::default()).await.ok().unwrap();
    room.declare(&[json!({ "name": "top", "wide": "very" })]).await.unwrap();
    assert_eq!(room.house().state("shop/shelf/top").await, State::Invalid);
    assert!(room.reason("shop/shelf/top").await.contains("wide"), "{}", room.reason("shop/shelf/top").await);
    let refused = room.declare(&[json!({ "name": "low", "wide": 1, "look": "crooked" })]).await.unwrap_err();
    let problem = v1::Problem::from_status(&refused).unwrap();
    assert_eq!(problem.misplaced[0].message, "`look` of `shop/shelf/low` must be straight");
    let again = Carpenter::attach(&room, Arc::default()).await.err().unwrap();
    assert_eq!(again.message(), "kind `shop.shelf` is made real by the process `carpenter`");
    room.close().await;
}

#[tokio::test]
async fn a_process_that_dies_costs_its_own_items_and_nothing_else() {
    let room = Room::open().await;
    let carpenter = Carpenter::attach(&room, Arc::default()).await.ok().unwrap();
    room.declare(&[json!({ "name": "top", "wide": 1 })]).await.unwrap();
    let shelves = carpenter.die().await;
    let in_trouble = async {
        loop {
            let troubles = room.troubles().await;
            if !troubles.is_empty() {
                return troubles;
            }
            tokio::time::sleep(Duration::from_millis(5)).await; // poll, until the deadline
        }
    };
    let troubles = tokio::time::timeout(PATIENCE, in_trouble).await.unwrap();
    assert!(
        troubles.iter().any(|trouble| trouble.contains("the process `carpenter` is away")),
        "{troubles:?}"
    );
    room.declare(&[json!({ "name": "top", "wide": 2 }), json!({ "name": "low", "wide": 1 })]).await.unwrap();
    assert!(room.reason("shop/shelf/low").await.contains("the process `carpenter` is away"));
    room.house().apply("walls", &["a/left"]).await.unwrap();
    assert_eq!(room.house().state("a/left").await, State::Configured);

    let carpenter = Carpenter::attach(&room, shelves).await.ok().unwrap();
    room.until("shop/shelf/top", State::Configured).await;
    room.until("shop/shelf/low", State::Configured).await;
    assert_eq!(carpenter.shelves().there["shop/shelf/top"]["wide"], 2);
    room.close().await;
}

#[tokio::test]
async fn a_process_that_hangs_is_given_up_soon_and_asked_again_when_it_answers() {
    let room = Room::open().await;
    let within = Duration::from_secs(1);
    let carpenter = Carpenter::attach_within(&room, Arc::default(), within).await.ok().unwrap();
    carpenter.manners.hangs.store(true, Ordering::SeqCst);
    room.declare(&[json!({ "name": "top", "wide": 1 })]).await.unwrap();
    assert!(room.reason("shop/shelf/top").await.contains("the process `carpenter` does not answer"));
    room.house().apply("walls", &["a/left"]).await.unwrap();
    assert_eq!(room.house().state("a/left").await, State::Configured);
    carpenter.manners.hangs.store(false, Ordering::SeqCst);
    room.until("shop/shelf/top", State::Configured).await;
    room.close().await;
}

#[tokio::test]
async fn a_process_that_hangs_and_says_that_it_lives_holds_up_nobody_again() {
    let room = Room::open().await;
    let within = Duration::from_secs(1);
    let carpenter = Carpenter::attach_within(&room, Arc::default(), within).await.ok().unwrap();
    carpenter.manners.idles.store(true, Ordering::SeqCst);
    room.declare(&[json!({ "name": "top", "wide": 1 })]).await.unwrap();
    let told = async {
        while !room.troubles().await.iter().any(|trouble| trouble.contains("does not answer")) {
            tokio::time::sleep(Duration::from_millis(5)).await; // poll, until the deadline
        }
    };
    assert!(tokio::time::timeout(PATIENCE, told).await.is_ok(), "the health names the kind");
    let before = carpenter.shelves().asked.len();
    carpenter.shelves().read.clear();
    for number in 0..50 {
        carpenter.says.send(says(Says::Alive(v1::Alive {}))).unwrap();
        let wall = format!("a/{number}");
        room.house().apply("walls", &[&wall]).await.unwrap();
        assert_eq!(room.house().state(&wall).await, State::Configured);
    }
    assert!(room.reason("shop/shelf/top").await.contains("the process `carpenter` does not answer"));
    let read = carpenter.shelves().read.clone();
    assert!(read.iter().all(|read| read == "retrieve everything"), "the loop asked again: {read:?}");
    assert_eq!(carpenter.shelves().asked.len(), before, "the loop asked again");
    carpenter.manners.idles.store(false, Ordering::SeqCst);
    room.until("shop/shelf/top", State::Configured).await;
    room.close().await;
}

#[tokio::test]
async fn what_a_process_notices_while_it_is_asked_does_not_hold_up_its_answer() {
    let room = Room::open().await;
    let carpenter = Carpenter::attach(&room, Arc::default()).await.ok().unwrap();
    carpenter.manners.notices.store(true, Ordering::SeqCst);
    let shelf = [json!({ "name": "top", "wide": 1 })];
    let ended = tokio::time::timeout(WITHIN / 2, room.declare(&shelf)).await;
    let ended = ended.expect("the answer is read while the loop waits for it").unwrap();
    assert_eq!(ended.transaction.unwrap().failures, 0);
    assert_eq!(room.house().state("shop/shelf/top").await, State::Configured);
    assert!(!carpenter.manners.notices.load(Ordering::SeqCst), "it has noticed something before");
    room.close().await;
}

#[tokio::test]
async fn the_items_of_several_kinds_are_read_when_their_process_comes() {
    let room = Room::open().await;
    let board = json!({ "kind": "shop.board", "name": "loose" });
    room.declare(&[json!({ "name": "top", "wide": 1 }), board]).await.unwrap();
    let attached = tokio::time::timeout(WITHIN / 2, Carpenter::attach(&room, Arc::default())).await;
    let carpenter = attached.expect("nothing waits for an answer before it can be given").ok().unwrap();
    room.until("shop/shelf/top", State::Configured).await;
    room.until("shop/board/loose", State::Configured).await;
    let mut asked = carpenter.shelves().asked.clone();
    asked.sort();
    assert_eq!(asked, ["create shop/board/loose", "create shop/shelf/top"]);
    let audit = std::fs::read_to_string(room.served.folder.path().join("audit.log")).unwrap();
    let attached = audit.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let attached: Vec<_> = attached.filter(|record| record["what"] == "Attach").collect();
    assert_eq!(attached.len(), 2, "that it is asked, and how it ended: {audit}");
    assert_eq!(attached[1]["description"], "carpenter: shop.shelf, shop.board");
    assert_eq!(attached[1]["ended"], "done");
    room.close().await;
}

#[tokio::test]
async fn what_was_declared_before_the_process_came_is_taken_over_where_it_is_there() {
    let room = Room::open().await;
    room.declare(&[json!({ "name": "top", "wide": 1 }), json!({ "name": "low", "wide": 1 })]).await.unwrap();
    assert_eq!(room.house().state("shop/shelf/top").await, State::Unimplemented);
    let there = BTreeMap::from([("shop/shelf/top".to_owned(), json!({ "name": "top", "wide": 1 }))]);
    let shelves = Arc::new(Mutex::new(Shelves { there, ..Shelves::default() }));
    let carpenter = Carpenter::attach(&room, shelves).await.ok().unwrap();
    room.until("shop/shelf/low", State::Configured).await;
    assert_eq!(room.house().state("shop/shelf/top").await, State::Configured);
    assert_eq!(carpenter.shelves().asked, ["create shop/shelf/low"]);
    room.close().await;
}

#[tokio::test]
async fn what_the_process_notices_is_read_again_and_healed() {
    let room = Room::open().await;
    let carpenter = Carpenter::attach(&room, Arc::default()).await.ok().unwrap();
    room.declare(&[json!({ "name": "top", "wide": 1 })]).await.unwrap();
    carpenter.shelves().there.clear();
    let noticed = v1::NoticedItems { kind: "shop.shelf".to_owned(), names: vec!["top".to_owned()] };
    carpenter.says.send(says(Says::Noticed(noticed))).unwrap();
    let back = async {
        while carpenter.shelves().there.is_empty() {
            tokio::time::sleep(Duration::from_millis(5)).await; // poll, until the deadline
        }
    };
    assert!(tokio::time::timeout(PATIENCE, back).await.is_ok(), "it was not healed");
    room.close().await;
}
