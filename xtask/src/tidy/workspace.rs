//! The workspace as the checks see it: packages with their dependencies, and files with their text.
//!
//! Decided here: the files are those git tracks or would track, so that build output is never checked.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result};
use serde_json::Value;

use super::scenarios;
use crate::child;

/// Everything the checks look at.
#[derive(Debug, Default)]
pub(super) struct Workspace {
    /// The packages of the workspace.
    pub(super) packages: Vec<Package>,
    /// The files of the repository, by path.
    pub(super) files: Vec<File>,
    /// Every crate compiled into `kilter-scheduler`, near and far, without those used only at build time.
    pub(super) scheduler_crates: Vec<String>,
}

/// One package.
#[derive(Debug)]
pub(super) struct Package {
    pub(super) name: String,
    /// Folder of its manifest, relative to the workspace: `crates/scheduler`.
    pub(super) folder: String,
    pub(super) described: bool,
    /// The first file of each library and program, relative to the workspace.
    pub(super) roots: Vec<String>,
    pub(super) dependencies: Vec<Dependency>,
}

impl Package {
    /// Where its manifest is.
    pub(super) fn manifest(&self) -> String {
        format!("{}/Cargo.toml", self.folder)
    }
}

/// One line of a manifest's dependencies.
#[derive(Debug)]
pub(super) struct Dependency {
    pub(super) name: String,
    /// Used by tests, examples and benchmarks only.
    pub(super) dev: bool,
}

/// One file.
#[derive(Debug)]
pub(super) struct File {
    /// Relative to the workspace, with `/`.
    pub(super) path: String,
    /// Its content, where a check reads that kind of file.
    pub(super) text: Option<String>,
}

impl File {
    /// Name without the folders.
    pub(super) fn name(&self) -> &str {
        self.path.rsplit('/').next().unwrap_or(&self.path)
    }

    /// Whether it is Rust source.
    pub(super) fn is_rust(&self) -> bool {
        has_extension(&self.path, "rs")
    }

    /// Whether it belongs to the tests beside a crate, rather than to its source.
    pub(super) fn is_in_tests(&self) -> bool {
        self.path.split('/').any(|part| part == "tests" || part == "tests.rs")
    }
}

impl Workspace {
    /// Reads the workspace this program was built from.
    pub(super) fn load() -> Result<Self> {
        let root = child::root();
        let packages = packages(&child::metadata()?, &root)?;
        let scheduler_crates = if packages.iter().any(|package| package.name == "kilter-scheduler") {
            crates_of("kilter-scheduler", &root)?
        } else {
            Vec::new()
        };
        Ok(Self { packages, files: files(&root)?, scheduler_crates })
    }

    /// Path and text of the files a check asks for.
    pub(super) fn texts<'a>(
        &'a self,
        wanted: impl Fn(&File) -> bool + 'a,
    ) -> impl Iterator<Item = (&'a File, &'a str)> {
        self.files
            .iter()
            .filter(move |file| wanted(file))
            .filter_map(|file| Some((file, file.text.as_deref()?)))
    }

    /// Whether a path is a file of the repository, or a folder with one.
    pub(super) fn has(&self, path: &str) -> bool {
        let folder = format!("{path}/");
        path.is_empty() || self.files.iter().any(|file| file.path == path || file.path.starts_with(&folder))
    }

    /// The line of a manifest that names something, or the first.
    pub(super) fn line_of(&self, path: &str, needle: &str) -> usize {
        let text = self.files.iter().find(|file| file.path == path).and_then(|file| file.text.as_deref());
        let is_name = |character: char| character.is_alphanumeric() || "_-".contains(character);
        let names = |line: &str| {
            line.match_indices(needle).any(|(index, _)| {
                !line[..index].ends_with(is_name) && !line[index + needle.len()..].starts_with(is_name)
            })
        };
        text.and_then(|text| text.lines().position(names)).map_or(1, |index| index + 1)
    }
}

/// Whether a path ends in `.extension`.
pub(super) fn has_extension(path: &str, extension: &str) -> bool {
    Path::new(path).extension().is_some_and(|found| found == extension)
}

fn packages(metadata: &Value, root: &Path) -> Result<Vec<Package>> {
    let root = metadata["workspace_root"].as_str().map_or(root, Path::new);
    let list = metadata["packages"].as_array().context("`cargo metadata` lists no packages")?;
    list.iter().map(|package| read_package(package, root)).collect()
}

fn read_package(package: &Value, root: &Path) -> Result<Package> {
    let text =
        |value: &Value| value.as_str().map(str::to_owned).context("`cargo metadata` left out a name or path");
    let relative = |path: &str| Path::new(path).strip_prefix(root).map_or(path.to_owned(), slashed);
    let manifest = text(&package["manifest_path"])?;
    let folder = Path::new(&manifest).parent().map(slashed).unwrap_or_default();
    let is_root = |target: &&Value| {
        let kinds = target["kind"].as_array().into_iter().flatten().filter_map(Value::as_str);
        kinds.into_iter().any(|kind| kind.ends_with("lib") || kind == "bin" || kind == "proc-macro")
    };
    let targets = package["targets"].as_array().into_iter().flatten();
    let dependencies = package["dependencies"].as_array().into_iter().flatten();
    Ok(Package {
        name: text(&package["name"])?,
        folder: relative(&folder),
        described: package["description"].as_str().is_some_and(|description| !description.trim().is_empty()),
        roots: targets
            .filter(is_root)
            .map(|target| text(&target["src_path"]).map(|path| relative(&path)))
            .collect::<Result<_>>()?,
        dependencies: dependencies
            .map(|dependency| {
                Ok(Dependency { name: text(&dependency["name"])?, dev: dependency["kind"] == "dev" })
            })
            .collect::<Result<_>>()?,
    })
}

/// Names of all crates that a package is built from, without build scripts, macros and tests.
fn crates_of(package: &str, root: &Path) -> Result<Vec<String>> {
    let arguments = ["tree", "--locked", "--prefix", "none", "--no-dedupe", "--format", "{p}"];
    let mut command = child::cargo(&arguments);
    command.args(["--edges", "normal,no-proc-macro", "--package", package]).current_dir(root);
    let text = child::output_of(&mut command)?;
    let mut names: Vec<String> =
        text.lines().skip(1).filter_map(|line| line.split(' ').next().map(str::to_owned)).collect();
    names.sort();
    names.dedup();
    Ok(names)
}

fn files(root: &Path) -> Result<Vec<File>> {
    let mut command = Command::new("git");
    command.args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"]).current_dir(root);
    let text = child::output_of(&mut command)?;
    let mut paths: Vec<&str> = text.split('\0').filter(|path| !path.is_empty()).collect();
    paths.sort_unstable();
    paths.dedup();
    // A file deleted but not yet committed is still listed.
    paths.into_iter().filter(|path| root.join(path).is_file()).map(|path| read_file(path, root)).collect()
}

fn read_file(path: &str, root: &Path) -> Result<File> {
    let wanted = ["rs", "md", "toml"].iter().any(|extension| has_extension(path, extension))
        || scenarios::is_scenario(path);
    let read =
        || std::fs::read_to_string(root.join(path)).with_context(|| format!("could not read `{path}`"));
    Ok(File { path: path.to_owned(), text: wanted.then(read).transpose()? })
}

fn slashed(path: &Path) -> String {
    path.to_string_lossy().replace('\\', "/")
}

/// A workspace with these files and no packages.
#[cfg(test)]
pub(super) fn planted(files: &[(&str, &str)]) -> Workspace {
    let file =
        |(path, text): &(&str, &str)| File { path: (*path).to_owned(), text: Some((*text).to_owned()) };
    Workspace { files: files.iter().map(file).collect(), ..Workspace::default() }
}

#[cfg(test)]
impl Package {
    /// A described package with a library and no dependencies.
    pub(super) fn of(folder: &str, name: &str) -> Self {
        Self {
            name: name.to_owned(),
            folder: folder.to_owned(),
            described: true,
            roots: vec![format!("{folder}/src/lib.rs")],
            dependencies: Vec::new(),
        }
    }

    /// The same with one more dependency.
    pub(super) fn importing(mut self, name: &str, dev: bool) -> Self {
        self.dependencies.push(Dependency { name: name.to_owned(), dev });
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metadata_is_read() {
        let metadata = serde_json::json!({
            "workspace_root": "/house",
            "packages": [{
                "name": "kilter-southbound",
                "description": null,
                "manifest_path": "/house/crates/southbound/Cargo.toml",
                "targets": [
                    { "kind": ["lib"], "src_path": "/house/crates/southbound/src/lib.rs" },
                    { "kind": ["test"], "src_path": "/house/crates/southbound/tests/driver.rs" },
                ],
                "dependencies": [
                    { "name": "kilter-scheduler", "kind": null },
                    { "name": "kilter-testkit", "kind": "dev" },
                    { "name": "cc", "kind": "build" },
                ],
            }],
        });
        let packages = packages(&metadata, Path::new("/elsewhere")).unwrap();
        let [package] = packages.as_slice() else { panic!("one package") };
        assert_eq!(package.manifest(), "crates/southbound/Cargo.toml");
        assert!(!package.described);
        assert_eq!(package.roots, ["crates/southbound/src/lib.rs"]);
        let dependencies: Vec<_> =
            package.dependencies.iter().map(|one| (one.name.as_str(), one.dev)).collect();
        assert_eq!(dependencies, [("kilter-scheduler", false), ("kilter-testkit", true), ("cc", false)]);
    }

    #[test]
    fn a_name_is_found_whole_only() {
        let workspace = planted(&[("Cargo.toml", "fastrand = 1\nrand-core = 1\nrand = 1\n")]);
        assert_eq!(workspace.line_of("Cargo.toml", "rand"), 3);
        assert_eq!(workspace.line_of("Cargo.toml", "ran"), 1);
        assert_eq!(workspace.line_of("gone.toml", "rand"), 1);
    }

    #[test]
    fn a_folder_exists_where_a_file_is_in_it() {
        let workspace = planted(&[("docs/adr/one.md", "")]);
        assert!(workspace.has("docs/adr") && workspace.has("docs/adr/one.md"));
        assert!(!workspace.has("docs/ad") && !workspace.has("docs/adr/one"));
    }
}
