//! Any text as a document: it is refused with places, or its items export as a document of the same items.
#![no_main]

use kilter_model::document::{Source, read};
use kilter_model::export::export;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    // A carriage return ends a line of YAML too.
    let lines = text.matches(['\n', '\r']).count() + 1;
    match read(&[Source::new("fuzz", text)]) {
        Err(problems) => {
            for problem in &problems.0 {
                assert!(problem.place.line as usize <= lines, "{problem} in a text of {lines} lines");
            }
        }
        Ok(items) => {
            let exported = export(items.iter().map(|item| (&item.key, &item.value)));
            let again = read(&[Source::new("export", exported.clone())]).expect("an export is a document");
            assert_eq!(items.len(), again.len(), "{exported}");
            for item in &items {
                let back = again.iter().find(|back| back.key == item.key).expect("every item is exported");
                // What is exported is shown, and a secret is not.
                assert_eq!(back.value.to_json(), item.value.to_json(), "{exported}");
            }
            let twice = export(again.iter().map(|item| (&item.key, &item.value)));
            assert_eq!(twice, exported);
        }
    }
});
