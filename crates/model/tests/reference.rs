//! The reference page of the kinds says what the code does.

use kilter_model::reference::kinds_page;

#[test]
fn the_page_of_the_kinds_is_up_to_date() {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference/kinds.md");
    let page = kinds_page();
    if std::env::var_os("UPDATE_GOLDENFILES").is_some() {
        std::fs::write(&path, &page).unwrap();
        return;
    }
    let written = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        written == page,
        "docs/reference/kinds.md is not what the code says: write it with UPDATE_GOLDENFILES=1"
    );
}

#[test]
fn every_kind_says_what_it_needs() {
    let page = kinds_page();
    for kind in kilter_model::KINDS {
        let section = page.split(&format!("## `{}`\n", kind.word)).nth(1).unwrap();
        let section = section.split("\n## ").next().unwrap();
        assert!(section.contains("Needs "), "{}", kind.word);
    }
}
