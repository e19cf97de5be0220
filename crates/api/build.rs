//! Compiles the protobuf files without a protobuf compiler on the path.

use std::error::Error;
use std::path::PathBuf;

#[path = "src/fields.rs"]
mod fields;

use fields::{FLAT, MOMENTS, SPANS, STRICT, TEXTS, WORDS};

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo:rerun-if-changed=proto");
    println!("cargo:rerun-if-changed=src/fields.rs");
    let mut compiler = protox::Compiler::new(["proto"])?;
    compiler.include_imports(true).include_source_info(true);
    compiler.open_files([
        "kilter/v1/agent.proto",
        "kilter/v1/actuator.proto",
        "kilter/v1/problem.proto",
        "kilter/v1/rest.proto",
    ])?;
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
    for field in FLAT {
        builder = builder.field_attribute(field, "#[serde(flatten)]");
    }
    for message in STRICT {
        builder = builder.message_attribute(message, "#[serde(deny_unknown_fields)]");
    }
    builder.compile_fds(compiler.file_descriptor_set())?;
    Ok(())
}
