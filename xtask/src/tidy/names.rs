//! Files and modules carry names that say what is in them.

use super::Finding;
use super::source::{lines, module_name};
use super::workspace::Workspace;

/// Words that say nothing; a plural counts as its singular.
const BANNED: &[&str] = &["manager", "util", "common", "helper", "misc"];

const HINT: &str = "name it for what is decided in it";

pub(super) fn check(workspace: &Workspace) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (file, text) in workspace.texts(|file| file.is_rust()) {
        if let Some(word) = file.path.trim_end_matches(".rs").split('/').find_map(banned_word) {
            findings.push(Finding::violation(&file.path, 1, format!("`{word}` in a file name"), HINT));
        }
        for (number, line) in lines(text) {
            if let Some(word) = module_name(line).and_then(banned_word) {
                findings.push(Finding::violation(
                    &file.path,
                    number,
                    format!("`{word}` in a module name"),
                    HINT,
                ));
            }
        }
    }
    findings
}

/// The word in a name that says nothing.
fn banned_word(name: &str) -> Option<&str> {
    name.split(['_', '-', '.'])
        .find(|word| BANNED.contains(word) || BANNED.contains(&word.trim_end_matches('s')))
}

#[cfg(test)]
mod tests {
    use super::super::workspace::planted;
    use super::*;

    #[test]
    fn files_folders_and_modules_are_looked_at() {
        for banned in BANNED {
            for name in [(*banned).to_owned(), format!("{banned}s"), format!("link_{banned}")] {
                let file = format!("crates/model/src/{name}.rs");
                let folder = format!("crates/model/tests/{name}/mod.rs");
                let module = format!("//! Doc.\npub(crate) mod {name};\n");
                let workspace = planted(&[(&file, ""), (&folder, ""), ("crates/model/src/lib.rs", &module)]);
                let places: Vec<_> =
                    check(&workspace).into_iter().map(|finding| (finding.path, finding.line)).collect();
                assert_eq!(
                    places,
                    [(file, 1), (folder, 1), ("crates/model/src/lib.rs".to_owned(), 2)],
                    "{name}"
                );
            }
        }
    }

    #[test]
    fn words_that_merely_contain_one_are_fine() {
        assert_eq!(check(&planted(&[("crates/model/src/utility_pole.rs", "mod commonality;\n")])), []);
    }
}
