//! The page of the command line, made of what clap knows and held against the one in `docs/`.

use clap::{Command, CommandFactory as _};

use crate::Arguments;

const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/reference/cli.md");

const HEADING: &str = "# Command line\n\n\
    Every verb with its arguments, as `--help` prints them. Made by a test out of\n\
    [`arguments.rs`](../../crates/cli/src/arguments.rs); `UPDATE_GOLDENFILES=1 cargo test -p kilter-cli` writes it \
    anew.\nHow a command may end is in [exit codes](exit-codes.md).\n";

fn page() -> String {
    let mut page = HEADING.to_owned();
    let mut command = Arguments::command().term_width(100);
    command.build();
    let mut open = vec![command];
    while let Some(mut command) = open.pop() {
        page.push_str(&section(&mut command));
        let below: Vec<Command> =
            command.get_subcommands().filter(|one| one.get_name() != "help").cloned().collect();
        open.extend(below.into_iter().rev());
    }
    page
}

fn section(command: &mut Command) -> String {
    let name = command.get_bin_name().unwrap_or("kilter").to_owned();
    let help = command.clone().term_width(100).render_help().to_string();
    let lines: Vec<&str> = help.lines().map(str::trim_end).collect();
    format!("\n## `{name}`\n\n```text\n{}\n```\n", lines.join("\n").trim_end())
}

#[test]
fn the_page_of_the_command_line_is_what_the_program_knows() {
    let page = page();
    if std::env::var_os("UPDATE_GOLDENFILES").is_some() {
        std::fs::write(PAGE, &page).unwrap();
    }
    let written = std::fs::read_to_string(PAGE).unwrap_or_default();
    assert!(written == page, "docs/reference/cli.md is out of date; UPDATE_GOLDENFILES=1 writes it anew");
}
