//! Files and folders become one set of documents.

use std::fs;
use std::path::PathBuf;

use kilter_model::document::{gather, read};

fn folder(name: &str) -> PathBuf {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(folder.join("below")).expect("a folder for the test");
    folder
}

#[test]
fn folders_are_read_in_the_order_of_names() {
    let folder = folder("gathered-in-order");
    for (name, netns) in [("b.yml", "two"), ("a.yaml", "one"), ("below/c.json", "three"), ("z.yaml", "four")]
    {
        fs::write(folder.join(name), format!("{{kind: netns, name: {netns}}}\n")).unwrap();
    }
    for ignored in [".hidden.yaml", "notes.txt", "a.yaml~"] {
        fs::write(folder.join(ignored), "not: [a document").unwrap();
    }
    let items = read(&gather(&[&folder]).unwrap()).unwrap();
    let keys: Vec<&str> = items.iter().map(|item| item.key.as_str()).collect();
    assert_eq!(keys, ["linux/netns/one", "linux/netns/two", "linux/netns/three", "linux/netns/four"]);
}

#[test]
fn duplicates_across_files_name_both_places() {
    let folder = folder("gathered-twice");
    for name in ["a.yaml", "b.yaml"] {
        fs::write(folder.join(name), "kind: netns\nname: blue\n").unwrap();
    }
    let problems = read(&gather(&[&folder]).unwrap()).unwrap_err().to_string();
    let (a, b) = (folder.join("a.yaml"), folder.join("b.yaml"));
    let expected =
        format!("{}:1:7: `linux/netns/blue` is declared already, at {}:1:7", b.display(), a.display());
    assert_eq!(problems, expected);
}

#[test]
fn everything_that_cannot_be_read_is_told() {
    let folder = folder("gathered-not");
    fs::write(folder.join("latin.yaml"), [b'k', 0xe9]).unwrap();
    let error = gather(&[folder.join("nowhere.yaml"), folder.clone()]).unwrap_err().to_string();
    assert_eq!(error.lines().count(), 2, "{error}");
    assert!(error.contains("nowhere.yaml") && error.contains("latin.yaml"), "{error}");
}
