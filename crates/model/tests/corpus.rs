//! The seeds of the fuzzer hold without one: nothing panics, and what is accepted exports and reads back.

use kilter_model::document::{Source, read};
use kilter_model::export::export;

#[test]
fn every_seed_of_the_document_fuzzer_holds() {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/document");
    let mut accepted = 0;
    for entry in std::fs::read_dir(folder).unwrap() {
        let bytes = std::fs::read(entry.unwrap().path()).unwrap();
        let text = String::from_utf8_lossy(&bytes);
        let Ok(items) = read(&[Source::new("seed", text)]) else { continue };
        let exported = export(items.iter().map(|item| (&item.key, &item.value)));
        assert!(read(&[Source::new("export", exported)]).is_ok());
        accepted += 1;
    }
    assert!(accepted > 0, "some seeds are documents");
}
