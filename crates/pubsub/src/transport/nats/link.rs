//! A subscriber at a NATS server.

use std::collections::HashMap;
use std::io;

use tokio::time::{Instant, Interval, MissedTickBehavior, interval};

use crate::change::Topic;
use crate::message::Message;
use crate::transport::{Arrival, Link, arrival};
use crate::wire::{self, Names};

use super::client::{self, Delivered, Listener, Speaker};
use super::parts::Joining;
use super::{SIGN_OF_LIFE, SILENCE, Subjects, inbox, place, refusal};

/// The subscriptions of a subscriber: answers, what JetStream says about consumers, then two for each topic.
const ANSWERS: u64 = 1;
const CONSUMERS: u64 = 2;
const FIRST_TOPIC: u64 = 3;

/// Connects to a distributor through its server.
pub(crate) async fn dial(address: &str) -> io::Result<Link> {
    let (server, name) = place(address)?;
    let (speaker, listener) = client::connect(&server).await?;
    let (answers, consumers) = (inbox(), inbox());
    speaker.subscribe(&answers, ANSWERS)?;
    speaker.subscribe(&consumers, CONSUMERS)?;
    let mut looks = interval(SIGN_OF_LIFE);
    looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    Ok(Link::Nats(Box::new(NatsLink {
        subjects: Subjects::of(&name),
        speaker,
        listener,
        answers,
        consumers,
        topics: HashMap::new(),
        answered: Joining::default(),
        next_sid: FIRST_TOPIC,
        names: Names::default(),
        looks,
        is_lost: false,
    })))
}

/// A topic that is listened to: beats at one subscription, slices at the next.
struct Listening {
    sub: u32,
    sid: u64,
    heard: Instant,
    /// What came of slices in parts.
    slices: Joining,
}

/// One link: what a subscriber follows through its server.
pub(crate) struct NatsLink {
    subjects: Subjects,
    speaker: Speaker,
    listener: Listener,
    answers: String,
    consumers: String,
    topics: HashMap<Topic, Listening>,
    /// What came of answers in parts.
    answered: Joining,
    next_sid: u64,
    /// What topics and tables are called.
    names: Names,
    looks: Interval,
    /// Whether something could not be said, or there is nothing to listen to.
    is_lost: bool,
}

impl NatsLink {
    /// Asks the distributor something, or tells it.
    pub(crate) fn send(&mut self, message: &Message) {
        let said = self.note(message).and_then(|()| {
            self.speaker.publish(&self.subjects.ask(), Some(&self.answers), &wire::encode(message))
        });
        self.is_lost |= said.is_err();
    }

    /// Listens to a topic before it is asked for, so that nothing in between is missed.
    fn note(&mut self, message: &Message) -> io::Result<()> {
        if let Message::Subscribe { sub, topic, .. } = message {
            if let Some(listening) = self.topics.get_mut(topic) {
                listening.sub = *sub;
                return Ok(());
            }
            let (sid, at) = (self.next_sid, inbox());
            self.next_sid += 2;
            self.speaker.subscribe(&self.subjects.beat(topic), sid)?;
            self.speaker.subscribe(&at, sid + 1)?;
            self.subjects.make_consumer(&self.speaker, topic, &at, &self.consumers)?;
            let listening = Listening { sub: *sub, sid, heard: Instant::now(), slices: Joining::default() };
            self.topics.insert(topic.clone(), listening);
        } else if let Message::Unsubscribe { sub } = message {
            let topic = self.topics.iter().find(|(_, listening)| listening.sub == *sub);
            let Some(topic) = topic.map(|(topic, _)| topic.clone()) else { return Ok(()) };
            if let Some(listening) = self.topics.remove(&topic) {
                self.speaker.unsubscribe(listening.sid)?;
                self.speaker.unsubscribe(listening.sid + 1)?;
            }
        }
        Ok(())
    }

    /// What came next; nothing at the end. Dropping the future loses nothing.
    pub(crate) async fn next(&mut self) -> Option<Vec<Arrival>> {
        while !self.is_lost {
            let batch = self.ready().ok()?;
            if !batch.is_empty() {
                return Some(batch);
            }
            tokio::select! {
                biased;
                read = self.listener.read() => read.ok()?,
                // A consumer says something even if nothing happens; one that does not has gone with its stream.
                _ = self.looks.tick() => {
                    self.is_lost |= self.topics.values().any(|topic| topic.heard.elapsed() > SILENCE);
                }
            }
        }
        None
    }

    /// What has been read already.
    fn ready(&mut self) -> io::Result<Vec<Arrival>> {
        let mut batch = Vec::new();
        while let Some(message) = self.listener.ready()? {
            batch.extend(self.heard(&message));
        }
        Ok(batch)
    }

    fn heard(&mut self, message: &Delivered) -> Option<Arrival> {
        if message.sid == CONSUMERS {
            self.is_lost |= refusal(message).is_some();
            return None;
        }
        let topic = self.topics.values_mut().find(|topic| topic.sid + 1 == message.sid);
        let parts = match topic {
            Some(topic) => {
                topic.heard = Instant::now();
                &mut topic.slices
            }
            None if message.sid == ANSWERS => &mut self.answered,
            // A beat is small.
            None => &mut Joining::default(),
        };
        // A sign of life; or nobody is at the other end, which time tells.
        if message.status.is_some() { None } else { arrival(&mut self.names, &parts.take(&message.body)?) }
    }
}
