//! What can be set about delivery, with defaults.
//!
//! Decided here: names, defaults and what cannot be. The options of the first design keep their names
//! (`enable_df_pub_sub`, …); everything else is written as in the rest of the house (`heartbeat-interval`).

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::distributor::Tail;
use crate::publisher::Delivery;

/// What carries frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Transport {
    /// The own frames over TCP, with TLS if that is set.
    Tcp,
    /// ZeroMQ, in the clear.
    Zmq,
    /// NATS with JetStream, in the clear.
    Nats,
}

impl Transport {
    /// How what happens reaches subscribers over it.
    pub fn delivery(self) -> Delivery {
        match self {
            Self::Tcp => Delivery::Cursors,
            Self::Zmq | Self::Nats => Delivery::Broadcast,
        }
    }

    /// What its addresses begin with.
    pub fn scheme(self) -> &'static str {
        match self {
            Self::Tcp => "tcp",
            Self::Zmq => "zmq",
            Self::Nats => "nats",
        }
    }
}

/// The drivers that `pub_sub_driver` names: those of the first design, and the own ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Driver {
    /// As `publisher_transport` says.
    #[serde(rename = "zmq_pubsub_driver", alias = "zmq_bind_pubsub_driver")]
    AsTransport,
    /// The store's own watch, as if delivery were not apart from it.
    #[serde(rename = "etcd_pubsub_driver")]
    Store,
    /// The own frames over TCP.
    #[serde(rename = "tcp")]
    Tcp,
    /// ZeroMQ.
    #[serde(rename = "zmq")]
    Zmq,
    /// NATS.
    #[serde(rename = "nats")]
    Nats,
}

/// The drivers that `pub_sub_multiproc_driver` names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum PokeDriver {
    /// The socket of the distributor.
    #[serde(rename = "zmq_pubsub_multiproc_driver")]
    Socket,
}

/// What a subscriber does about what it holds when no publisher can be reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum StaleAction {
    /// It keeps everything, and tells its age.
    Keep,
    /// It keeps everything, and tells once that it is too old to be relied on, after `fence-after`.
    Fence,
}

/// The settings of publishers, subscribers and distributors.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct Settings {
    /// Whether delivery is apart from the store. Default: no; then the store's own watch, or polling, is used.
    #[serde(rename = "enable_df_pub_sub")]
    pub enabled: bool,
    /// The driver: `zmq_pubsub_driver` is what `publisher_transport` says, `tcp`, `zmq` and `nats` are these, and
    /// `etcd_pubsub_driver` is the store's own watch. Default: `zmq_pubsub_driver`.
    #[serde(rename = "pub_sub_driver")]
    pub driver: Driver,
    /// The addresses of publishers that are known from the beginning. Default: `127.0.0.1`.
    #[serde(rename = "publishers_ips")]
    pub publishers: Vec<String>,
    /// The port of publishers. Default: 8866.
    #[serde(rename = "publisher_port")]
    pub port: u16,
    /// Whether writers of this machine poke the distributor through a local socket. Default: yes.
    #[serde(rename = "pub_sub_use_multiproc")]
    pub poke: bool,
    /// What carries frames: `tcp` (the own frames), `zmq` or `nats`. Default: `tcp`.
    #[serde(rename = "publisher_transport")]
    pub transport: Transport,
    /// Where publishers listen; `*` is everywhere. Default: `*`.
    #[serde(rename = "publisher_bind_address")]
    pub bind: String,
    /// The driver of the poke, of which there is one. Default: `zmq_pubsub_multiproc_driver`.
    #[serde(rename = "pub_sub_multiproc_driver")]
    pub poke_driver: PokeDriver,
    /// The socket of the poke. Default: `/var/run/zmq_pubsub/zmq-publisher-socket`.
    #[serde(rename = "publisher_multiproc_socket")]
    pub poke_socket: String,
    /// How often a publisher says where it stands, idle or not (`max_idle_time` of the first design). Default: 1 s.
    #[serde(with = "span", alias = "max_idle_time")]
    pub heartbeat_interval: Duration,
    /// A peer that says nothing for this long is dead. Default: 3 s.
    #[serde(with = "span")]
    pub peer_timeout: Duration,
    /// How long a gap may close by itself (the message delay window). Default: 0 s; 100 ms suits a
    /// transport that reorders.
    #[serde(with = "span", alias = "message_delay_window")]
    pub reorder_window: Duration,
    /// How many slices may wait behind a gap before it counts as one; 2 is the first design to the letter. Default: 0.
    pub gap_tolerance: usize,
    /// How long an answer may take. Default: 2 s.
    #[serde(with = "span")]
    pub fetch_timeout: Duration,
    /// How often an answer is asked for before the publisher is given up. Default: 3.
    pub fetch_attempts: u32,
    /// How long a catch-up may stand still. Default: 30 s.
    #[serde(with = "span")]
    pub progress_timeout: Duration,
    /// The shortest wait before connecting again; it doubles. Default: 50 ms.
    #[serde(with = "span")]
    pub backoff: Duration,
    /// The longest wait before connecting again. Default: 5 s.
    #[serde(with = "span")]
    pub backoff_cap: Duration,
    /// The shortest time between two snapshots of a topic; it doubles. Default: 5 s.
    #[serde(with = "span")]
    pub snapshot_interval: Duration,
    /// The longest time between two snapshots of a topic. Default: 60 s.
    #[serde(with = "span")]
    pub snapshot_interval_cap: Duration,
    /// How many snapshots a publisher serves at a time. Default: 8.
    pub snapshots: usize,
    /// At most about this many bytes are kept in the log. Default: 64 MiB.
    pub log_bytes: usize,
    /// At most this many slices are kept in the log. Default: 262 144.
    pub log_slices: usize,
    /// At most about this many bytes wait to be sent to one subscriber. Default: 1 MiB.
    pub window: usize,
    /// How many slices of a topic wait behind a gap. Default: 256.
    pub ahead_slices: usize,
    /// How many bytes of a topic wait behind a gap. Default: 1 MiB.
    pub ahead_bytes: usize,
    /// How often a subscriber says how far it is. Default: 1 s.
    #[serde(with = "span")]
    pub ack_interval: Duration,
    /// A subscriber that makes no progress for this long is let go. Default: 60 s.
    #[serde(with = "span")]
    pub stall_timeout: Duration,
    /// A subscriber that takes nothing for this long is let go. Default: 10 s.
    #[serde(with = "span")]
    pub write_timeout: Duration,
    /// How long a publisher that is behind a subscriber may take to get there. Default: 2 s.
    #[serde(with = "span")]
    pub behind_timeout: Duration,
    /// A subscriber that is further behind than this many slices gets the last value of each key. Default: 64.
    pub lag_slices: usize,
    /// How often a subscriber gets the last value of each key, if the log left it behind again and again.
    /// Default: 250 ms.
    #[serde(with = "span")]
    pub coalesce_interval: Duration,
    /// How often the distributor compares itself with its source; up to half of it is added. Default: 300 s.
    #[serde(with = "span")]
    pub audit_interval: Duration,
    /// How the source tells what happens: `watch`, or `poll` for one that cannot be watched. Default: `watch`.
    pub tail: Tail,
    /// How often a source that is polled is asked. Default: 100 ms.
    #[serde(with = "span")]
    pub poll_interval: Duration,
    /// How long a distributor stays in the discovery table without a sign of life. Default: 15 s.
    #[serde(with = "span")]
    pub lease: Duration,
    /// How often a distributor gives a sign of life. Default: 5 s.
    #[serde(with = "span")]
    pub lease_renewal: Duration,
    /// How much longer others wait before they remove it. Default: 15 s.
    #[serde(with = "span")]
    pub lease_grace: Duration,
    /// Another publisher is looked for when this one's source is away for longer. Default: 5 s.
    #[serde(with = "span")]
    pub stale_limit: Duration,
    /// Whether a subscriber that reaches no publisher reads the source itself. Default: yes.
    pub fallback: bool,
    /// How long it waits before it does. Default: 10 s.
    #[serde(with = "span")]
    pub fallback_after: Duration,
    /// Whether a subscriber takes a snapshot of every topic whenever it connects, as the first design says. Default: no.
    pub always_snapshot_on_reconnect: bool,
    /// What a subscriber does when what it holds grows old. Default: `keep`.
    pub stale_action: StaleAction,
    /// How old that is. Default: 5 m.
    #[serde(with = "span")]
    pub fence_after: Duration,
    /// For trials: of a hundred messages that are said to everybody over ZeroMQ or NATS, this many are lost. Default: 0.
    pub lose_percent: u8,
    /// A word that subscribers must know. Default: none.
    pub token: Option<String>,
}

impl Default for Settings {
    fn default() -> Self {
        let (seconds, millis) = (Duration::from_secs, Duration::from_millis);
        Self {
            enabled: false,
            driver: Driver::AsTransport,
            publishers: vec!["127.0.0.1".to_owned()],
            port: 8866,
            poke: true,
            transport: Transport::Tcp,
            bind: "*".to_owned(),
            poke_driver: PokeDriver::Socket,
            poke_socket: "/var/run/zmq_pubsub/zmq-publisher-socket".to_owned(),
            heartbeat_interval: seconds(1),
            peer_timeout: seconds(3),
            reorder_window: Duration::ZERO,
            gap_tolerance: 0,
            fetch_timeout: seconds(2),
            fetch_attempts: 3,
            progress_timeout: seconds(30),
            backoff: millis(50),
            backoff_cap: seconds(5),
            snapshot_interval: seconds(5),
            snapshot_interval_cap: seconds(60),
            snapshots: 8,
            log_bytes: 64 << 20,
            log_slices: 262_144,
            window: 1 << 20,
            ahead_slices: 256,
            ahead_bytes: 1 << 20,
            ack_interval: seconds(1),
            stall_timeout: seconds(60),
            write_timeout: seconds(10),
            behind_timeout: seconds(2),
            lag_slices: 64,
            coalesce_interval: millis(250),
            audit_interval: seconds(300),
            tail: Tail::Watch,
            poll_interval: millis(100),
            lease: seconds(15),
            lease_renewal: seconds(5),
            lease_grace: seconds(15),
            stale_limit: seconds(5),
            fallback: true,
            fallback_after: seconds(10),
            always_snapshot_on_reconnect: false,
            stale_action: StaleAction::Keep,
            fence_after: seconds(300),
            lose_percent: 0,
            token: None,
        }
    }
}

/// A setting that cannot be.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("setting `{field}` {problem}")]
pub struct SettingsError {
    /// The setting.
    pub field: &'static str,
    /// What is wrong, and what is allowed.
    pub problem: &'static str,
}

impl Settings {
    /// Checks every setting; the error names the first one that cannot be.
    pub fn validate(&self) -> Result<(), SettingsError> {
        const ZERO: &str = "must be greater than 0";
        let heartbeat = self.heartbeat_interval;
        let checks = [
            ("heartbeat-interval", heartbeat.is_zero(), ZERO),
            (
                "peer-timeout",
                self.peer_timeout < heartbeat * 2,
                "must be at least twice `heartbeat-interval`",
            ),
            ("reorder-window", self.reorder_window >= heartbeat, "must be less than `heartbeat-interval`"),
            ("fetch-timeout", self.fetch_timeout.is_zero(), ZERO),
            ("fetch-attempts", self.fetch_attempts == 0, ZERO),
            ("progress-timeout", self.progress_timeout.is_zero(), ZERO),
            ("backoff", self.backoff.is_zero(), ZERO),
            ("backoff-cap", self.backoff_cap < self.backoff, "must not be less than `backoff`"),
            ("snapshots", self.snapshots == 0, ZERO),
            ("log-slices", self.log_slices == 0, ZERO),
            ("window", self.window < 4096, "must be at least 4096"),
            (
                "log-bytes",
                self.log_bytes < self.window.saturating_mul(4),
                "must be at least four times `window`",
            ),
            ("ahead-slices", self.ahead_slices == 0, ZERO),
            ("ack-interval", self.ack_interval.is_zero(), ZERO),
            ("stall-timeout", self.stall_timeout <= self.ack_interval, "must be more than `ack-interval`"),
            ("write-timeout", self.write_timeout.is_zero(), ZERO),
            ("lag-slices", self.lag_slices == 0, ZERO),
            ("poll-interval", self.poll_interval.is_zero(), ZERO),
            ("audit-interval", self.audit_interval.is_zero(), ZERO),
            ("lose-percent", self.lose_percent > 90, "must be at most 90"),
            ("lease-renewal", self.lease_renewal.is_zero(), ZERO),
            ("lease", self.lease < self.lease_renewal * 3, "must be at least three times `lease-renewal`"),
        ];
        match checks.into_iter().find(|(_, wrong, _)| *wrong) {
            Some((field, _, problem)) => Err(SettingsError { field, problem }),
            None => Ok(()),
        }
    }

    /// Whether delivery is apart from the store.
    pub fn is_apart(&self) -> bool {
        self.enabled && self.driver != Driver::Store
    }

    /// What carries frames, as driver and transport say together.
    pub fn carrier(&self) -> Transport {
        match self.driver {
            Driver::AsTransport | Driver::Store => self.transport,
            Driver::Tcp => Transport::Tcp,
            Driver::Zmq => Transport::Zmq,
            Driver::Nats => Transport::Nats,
        }
    }

    /// How long a lost message goes unnoticed at most while its publisher lives.
    pub fn detection_bound(&self) -> Duration {
        self.heartbeat_interval + self.reorder_window
    }
}

/// Spans as text: `500ms`, `30s`, `5m`, `24h`; also numbers of seconds, as the first design has them.
mod span {
    use std::fmt;
    use std::time::Duration;

    use serde::de::{Error, Visitor};
    use serde::{Deserializer, Serializer};

    const UNITS: [(&str, u64); 4] = [("ms", 1), ("s", 1_000), ("m", 60_000), ("h", 3_600_000)];

    pub(super) fn serialize<S: Serializer>(span: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
        let millis = u64::try_from(span.as_millis()).unwrap_or(u64::MAX);
        let (unit, size) = UNITS.iter().rev().find(|unit| millis.is_multiple_of(unit.1)).unwrap_or(&UNITS[0]);
        let (unit, size) = if millis == 0 { ("s", 1) } else { (*unit, *size) };
        serializer.collect_str(&format_args!("{}{unit}", millis / size))
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
        deserializer.deserialize_any(Span)
    }

    struct Span;

    impl Visitor<'_> for Span {
        type Value = Duration;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a span of time such as `500ms`, `30s`, `5m`, or a number of seconds")
        }

        fn visit_u64<E: Error>(self, seconds: u64) -> Result<Duration, E> {
            Ok(Duration::from_secs(seconds))
        }

        fn visit_str<E: Error>(self, text: &str) -> Result<Duration, E> {
            let digits = text.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(text.len());
            let (number, unit) = text.split_at(digits);
            let size = UNITS.iter().find(|(name, _)| *name == unit).map(|(_, size)| *size);
            let millis =
                number.parse::<u64>().ok().zip(size).and_then(|(number, size)| number.checked_mul(size));
            millis.map(Duration::from_millis).ok_or_else(|| {
                E::custom(format!("`{text}` is not a span of time, hint: a number and one of ms, s, m, h"))
            })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_defaults_can_be() {
        assert_eq!(Settings::default().validate(), Ok(()));
    }

    #[test]
    fn every_option_of_the_first_design_is_read_by_its_name() {
        let text = r#"{"enable_df_pub_sub": true, "pub_sub_driver": "zmq", "publishers_ips": ["10.0.0.1"],
            "publisher_port": 1, "pub_sub_use_multiproc": false, "publisher_transport": "tcp",
            "publisher_bind_address": "::1", "pub_sub_multiproc_driver": "zmq_pubsub_multiproc_driver", "publisher_multiproc_socket": "/s",
            "max_idle_time": 2, "message_delay_window": "300ms"}"#;
        let read: Settings = serde_json::from_str(text).unwrap();
        assert!(read.is_apart() && !read.poke);
        assert_eq!((read.transport, read.carrier()), (Transport::Tcp, Transport::Zmq));
        assert_eq!(read.heartbeat_interval, Duration::from_secs(2));
        assert_eq!(read.reorder_window, Duration::from_millis(300));
        assert_eq!((read.port, read.publishers[0].as_str()), (1, "10.0.0.1"));
    }

    #[test]
    fn a_driver_that_nobody_has_is_refused_by_name() {
        for (name, apart, carrier) in [
            ("zmq_pubsub_driver", true, Transport::Tcp),
            ("zmq_bind_pubsub_driver", true, Transport::Tcp),
            ("etcd_pubsub_driver", false, Transport::Tcp),
            ("nats", true, Transport::Nats),
        ] {
            let text = format!(r#"{{"enable_df_pub_sub": true, "pub_sub_driver": "{name}"}}"#);
            let read: Settings = serde_json::from_str(&text).unwrap();
            assert_eq!((read.is_apart(), read.carrier()), (apart, carrier), "{name}");
        }
        for option in ["pub_sub_driver", "pub_sub_multiproc_driver"] {
            let text = format!(r#"{{"{option}": "redis_db_pubsub_driver"}}"#);
            let error = serde_json::from_str::<Settings>(&text).unwrap_err().to_string();
            assert!(error.contains("`redis_db_pubsub_driver`") && error.contains("expected"), "{error}");
        }
    }

    #[test]
    fn the_options_of_the_first_design_keep_their_defaults() {
        let written = serde_json::to_string(&Settings::default()).unwrap();
        for default in [
            r#""enable_df_pub_sub":false"#,
            r#""pub_sub_driver":"zmq_pubsub_driver""#,
            r#""publisher_port":8866"#,
            r#""pub_sub_use_multiproc":true"#,
            r#""publisher_transport":"tcp""#,
            r#""publisher_bind_address":"*""#,
            r#""pub_sub_multiproc_driver":"zmq_pubsub_multiproc_driver""#,
            r#""publisher_multiproc_socket":"/var/run/zmq_pubsub/zmq-publisher-socket""#,
        ] {
            assert!(written.contains(default), "{default} in {written}");
        }
        assert_eq!(serde_json::from_str::<Settings>(&written).unwrap(), Settings::default());
    }

    #[test]
    fn a_lease_that_could_run_out_while_its_owner_lives_is_refused() {
        let wrong = Settings { lease_renewal: Duration::from_secs(6), ..Settings::default() };
        assert_eq!(
            wrong.validate().unwrap_err().to_string(),
            "setting `lease` must be at least three times `lease-renewal`"
        );
        let wrong = Settings { reorder_window: Duration::from_secs(1), ..Settings::default() };
        assert_eq!(wrong.validate().unwrap_err().field, "reorder-window");
        assert!(serde_json::from_str::<Settings>(r#"{"heartbeat": "1s"}"#).is_err());
    }
}
