//! `graph`: items and what they need.

use std::path::Path;

use clap::{Args, ValueEnum};
use kilter_api::render::looks::Drawing;
use kilter_api::v1::GetGraphRequest;
use kilter_api::{CallError, render};

use crate::arguments::Form;
use crate::error::CommandError;
use crate::exit::Exit;
use crate::output::Output;
use crate::session;

/// What `graph` takes.
#[derive(Clone, Debug, Args)]
pub struct Graph {
    /// Only items whose keys start with this.
    #[arg(default_value = "", hide_default_value = true, value_name = "PREFIX")]
    prefix: String,
    /// As it was after this transaction.
    #[arg(long, value_name = "TXN")]
    at: Option<u64>,
    /// How it is printed.
    #[arg(short, long, value_enum, default_value_t = GraphForm::Text, value_name = "FORM")]
    output: GraphForm,
}

/// How a graph is printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum GraphForm {
    /// For people.
    Text,
    /// In the DOT language.
    Dot,
    /// As a picture.
    Svg,
    /// For programs.
    Json,
    /// For programs that people read.
    Yaml,
}

pub(super) fn run(arguments: &Graph, socket: &Path, output: &mut Output) -> Result<Exit, CommandError> {
    let request = GetGraphRequest { at: arguments.at, prefix: arguments.prefix.clone() };
    let graph = session::ask(socket, |mut client| async move {
        Ok(client.get_graph(request).await.map_err(CallError::from)?.into_inner())
    })?;
    match arguments.output {
        GraphForm::Text => output.print(&render::graph::text(&graph))?,
        GraphForm::Dot => output.print(&render::dot::dot(&graph, &Drawing::default()))?,
        GraphForm::Svg => output.print(&render::svg::svg(&graph, &Drawing::default()))?,
        GraphForm::Json => output.show(Form::Json, &graph, String::new)?,
        GraphForm::Yaml => output.show(Form::Yaml, &graph, String::new)?,
    }
    Ok(Exit::Applied)
}
