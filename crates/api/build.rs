//! Compiles the protobuf files without a protobuf compiler on the path.

use std::error::Error;
use std::path::PathBuf;

/// Fields that are enumerations, by the end of their path, and the module that writes them as words.
const WORDS: &[(&str, &str)] = &[
    ("state", "state"),
    ("Moment.before", "state"),
    ("Step.action", "action"),
    ("Finished.action", "action"),
    ("outcome", "outcome"),
    ("Problem.reason", "reason"),
    ("on_failure", "on_failure"),
    ("author", "author"),
    ("scope", "scope"),
    ("edge_type", "edge"),
];

/// Fields that hold JSON as text.
const TEXTS: &[&str] = &[
    "DeclaredItem.value",
    "Item.declared",
    "Item.actual",
    "Side.value",
    "Moment.value",
    "Observation.value",
    "Vertex.value",
    "Kind.schema",
];

/// Fields that are moments, and spans of time.
const MOMENTS: &[&str] = &["start", "stop", "Moment.at", "deadline"];
const SPANS: &[&str] = &["within", "timeout"];

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo:rerun-if-changed=proto");
    let mut compiler = protox::Compiler::new(["proto"])?;
    compiler.include_imports(true).include_source_info(true);
    compiler.open_files(["kilter/v1/agent.proto", "kilter/v1/problem.proto"])?;
    let out = PathBuf::from(std::env::var("OUT_DIR")?);
    std::fs::write(out.join("kilter.v1.bin"), compiler.encode_file_descriptor_set())?;
    let mut builder = tonic_prost_build::configure()
        .message_attribute(".", "#[derive(serde::Serialize, serde::Deserialize)] #[serde(default)]")
        .enum_attribute(
            ".",
            "#[derive(serde::Serialize, serde::Deserialize)] #[serde(rename_all = \"snake_case\")]",
        );
    for (field, module) in WORDS {
        builder = builder.field_attribute(field, format!("#[serde(with = \"crate::spelling::{module}\")]"));
    }
    for field in TEXTS {
        builder = builder.field_attribute(field, "#[serde(with = \"crate::spelling::json\")]");
    }
    for field in MOMENTS {
        builder = builder.field_attribute(field, "#[serde(with = \"crate::spelling::moment\")]");
    }
    for field in SPANS {
        builder = builder.field_attribute(field, "#[serde(with = \"crate::spelling::span\")]");
    }
    builder.compile_fds(compiler.file_descriptor_set())?;
    Ok(())
}
