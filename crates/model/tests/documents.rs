//! Documents that are accepted and documents that are broken: each broken one with exactly what is said about it.
//!
//! A broken case is a file of parts: `== NAME` begins a text of that name, `== expected` what is said about all of
//! them. `UPDATE_GOLDENFILES=1` writes the expected part anew.

use std::path::Path;

use kilter_model::document::{Source, read};
use kilter_model::export::export;
use test_each_file::test_each_path;

/// The texts of a case, and what is expected.
fn parts(case: &str) -> (Vec<Source>, String) {
    let mut sources: Vec<Source> = Vec::new();
    for line in case.split_inclusive('\n') {
        match (line.strip_prefix("== "), sources.last_mut()) {
            (Some(name), _) => sources.push(Source::new(name.trim_end(), "")),
            (None, Some(source)) => source.text.push_str(line),
            (None, None) => panic!("a case begins with `== NAME`"),
        }
    }
    let expected = match sources.pop() {
        Some(last) if last.name == "expected" => last.text,
        Some(last) => {
            sources.push(last);
            String::new()
        }
        None => String::new(),
    };
    (sources, expected)
}

fn broken(path: &Path) {
    let case = std::fs::read_to_string(path).expect("a case is text");
    let (sources, expected) = parts(&case);
    let said = match read(&sources) {
        Ok(items) => panic!("accepted as {} items", items.len()),
        Err(problems) => format!("{problems}\n"),
    };
    if std::env::var_os("UPDATE_GOLDENFILES").is_some() {
        let texts: String =
            sources.iter().map(|source| format!("== {}\n{}", source.name, source.text)).collect();
        std::fs::write(path, format!("{texts}== expected\n{said}")).expect("the case can be written");
        return;
    }
    assert_eq!(said, expected, "{}", path.display());
}

fn accepted(path: &Path) {
    let text = std::fs::read_to_string(path).expect("a case is text");
    let items = read(&[Source::new(path.display().to_string(), text)])
        .unwrap_or_else(|problems| panic!("{problems}"));
    assert!(!items.is_empty());
    let exported = export(items.iter().map(|item| (&item.key, &item.value)));
    let again = read(&[Source::new("export", exported.clone())])
        .unwrap_or_else(|problems| panic!("{problems}\n{exported}"));
    let sorted = |items: &[kilter_model::document::Declared]| {
        let mut keys: Vec<_> = items.iter().map(|item| item.key.clone()).collect();
        keys.sort();
        keys
    };
    assert_eq!(sorted(&items), sorted(&again), "{exported}");
    for item in &again {
        let before = items.iter().find(|before| before.key == item.key).expect("the keys are the same");
        assert_eq!(before.value, item.value, "{exported}");
    }
    assert_eq!(export(again.iter().map(|item| (&item.key, &item.value))), exported);
}

test_each_path! { in "./crates/model/tests/broken" as broken => broken }
test_each_path! { in "./crates/model/tests/accepted" as accepted => accepted }
test_each_path! { in "./crates/model/examples/documents" as example => accepted }

/// The tests are made when this file is compiled; a case added later would not run.
#[test]
fn every_case_is_a_test() {
    let listed = std::process::Command::new(std::env::current_exe().unwrap()).arg("--list").output().unwrap();
    let listed = String::from_utf8(listed.stdout).unwrap();
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/broken");
    let names: Vec<String> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    assert!(names.len() > 100, "{} broken documents", names.len());
    for name in names {
        let test = format!("broken::{name}: test");
        assert!(listed.contains(&test), "`{name}` is not compiled in: touch tests/documents.rs");
    }
}
