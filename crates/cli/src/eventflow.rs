//! What `kilter eventflow` takes.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};

use crate::arguments::Listing;

/// What `eventflow` takes.
#[derive(Clone, Debug, Args)]
pub struct Eventflow {
    /// What to do.
    #[command(subcommand)]
    pub verb: EventflowVerb,
}

/// What to do about EventFlow on Kubernetes.
#[derive(Clone, Debug, Subcommand)]
pub enum EventflowVerb {
    /// Print what is installed in a cluster, as YAML.
    Manifests(Manifests),
    /// Keep the flows of a cluster until stopped.
    Run(Run),
    /// Show how service instances and flows stand together.
    Status(Status),
    /// Offer flows to platforms over the Open Service Broker API until stopped.
    Broker(Broker),
}

/// What `eventflow manifests` takes.
#[derive(Clone, Debug, Args)]
pub struct Manifests {
    /// The namespace in which the controller runs.
    #[arg(long, default_value = "kilter-system", value_name = "NAME")]
    pub namespace: String,
    /// The image that holds this program.
    #[arg(long, default_value = "kilter:latest", value_name = "IMAGE")]
    pub image: String,
    /// How many copies of the controller run; one of them leads.
    #[arg(long, default_value_t = 2, value_name = "COUNT")]
    pub replicas: u32,
}

/// What `eventflow run` takes.
#[derive(Clone, Debug, Args)]
pub struct Run {
    /// The namespace in which sources, Channels and Subscriptions live.
    #[arg(long, default_value = "kyma-integration", value_name = "NAME")]
    pub integration: String,
    /// What makes the Broker of a namespace appear.
    #[arg(long, value_enum, default_value_t = SinkChoice::Injection, value_name = "WAY")]
    pub sink: SinkChoice,
    /// What lets the mesh reach a Broker.
    #[arg(long, value_enum, default_value_t = PolicyChoice::PeerAuthentication, value_name = "RESOURCE")]
    pub policy: PolicyChoice,
    /// The namespace of the lease that several copies share; without it, this one acts alone.
    #[arg(long, value_name = "NAME")]
    pub lease_namespace: Option<String>,
    /// How long the lease lasts if nobody renews it; every copy has to say the same.
    #[arg(long, default_value_t = 15, value_parser = clap::value_parser!(u64).range(3..), value_name = "SECONDS")]
    pub lease_seconds: u64,
    /// Where a page of the flows, health, numbers, the combined status and why a flow waits may be read over HTTP.
    #[arg(long, value_name = "ADDRESS")]
    pub listen: Option<SocketAddr>,
}

/// What `eventflow status` takes.
#[derive(Clone, Debug, Args)]
pub struct Status {
    /// Only those of this namespace.
    #[arg(short, long, value_name = "NAME")]
    pub namespace: Option<String>,
    /// How it is printed.
    #[command(flatten)]
    pub listing: Listing,
}

/// What `eventflow broker` takes.
#[derive(Clone, Debug, Args)]
pub struct Broker {
    /// Where platforms ask.
    #[arg(long, default_value = "127.0.0.1:8080", value_name = "ADDRESS")]
    pub listen: SocketAddr,
    /// A file with the name and the password of the platform: `NAME:PASSWORD`.
    #[arg(long, value_name = "FILE")]
    pub credentials: PathBuf,
    /// The namespace in which the records of instances are kept.
    #[arg(long, default_value = "kilter-system", value_name = "NAME")]
    pub namespace: String,
    /// The namespace of the lease that several copies share; without it, this one acts alone.
    #[arg(long, value_name = "NAME")]
    pub lease_namespace: Option<String>,
    /// How long the lease lasts if nobody renews it; every copy has to say the same.
    #[arg(long, default_value_t = 15, value_parser = clap::value_parser!(u64).range(3..), value_name = "SECONDS")]
    pub lease_seconds: u64,
    /// What is answered to a request that names no version: 400 is in the specification, 412 in its checkers.
    #[arg(long, default_value_t = 412, value_parser = clap::value_parser!(u16).range(400..500), value_name = "CODE")]
    pub versionless: u16,
}

/// What makes a Broker appear.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum SinkChoice {
    /// A label on the namespace, on which Knative makes it.
    Injection,
    /// We make it.
    Direct,
}

/// What lets the mesh reach a Broker.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum PolicyChoice {
    /// Istio's resource of today.
    PeerAuthentication,
    /// Istio's resource before 1.6.
    Policy,
    /// There is no mesh.
    None,
}
