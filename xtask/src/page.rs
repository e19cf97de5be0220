//! `cargo xtask page`: the web page is what its sources say.
//!
//! Decided here: how the sources under `ui/` are checked, and that the built assets in `ui/dist`, which the agent
//! carries, are byte for byte what they give. Node is needed for this and for nothing else. The steps:
//!
//! 1. packages as the lock file names them;
//! 2. types and lints;
//! 3. tests without a browser;
//! 4. a build beside the committed one, and a comparison;
//! 5. tests in a browser.
//!
//! Nothing is run, or downloaded, while nothing under `ui/` has changed since it was last found good. Whether the
//! committed assets belong to the committed sources is known without Node too: step 4 notes the hash of both in
//! `ui/built.txt`, and a test holds the files against it.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::{asks_for_help, child, kube, program};

const HELP: &str = "\
Checks the web page: its sources, its tests, and that `ui/dist` is what the sources give.

usage: cargo xtask page [--again]

Nothing is run while nothing under `ui/` has changed since the last good run, unless `--again` is given.
";

/// The most that the built assets may weigh, in bytes: they are part of the binary.
const MOST: u64 = 600_000;

/// Where the hash of the sources and of what was built from them is noted, below `ui/`.
const BUILT: &str = "built.txt";

/// What the assets are built from, and the assets, below `ui/`.
const BUILD: &[&str] = &[
    "dist",
    "flows.html",
    "index.html",
    "package-lock.json",
    "package.json",
    "public",
    "src",
    "svelte.config.js",
    "tsconfig.json",
    "vite.config.ts",
];

/// Packages as the lock file names them.
const INSTALL: &[&str] = &["ci", "--no-audit", "--no-fund", "--loglevel=error"];

/// Checks the page if something under `ui/` has changed.
pub(crate) fn run(arguments: &[String]) -> Result<bool> {
    if asks_for_help(arguments) {
        print!("{HELP}");
        return Ok(true);
    }
    let again = match arguments {
        [] => false,
        [word] if word == "--again" => true,
        [word, ..] => bail!("unexpected argument `{word}`, hint: only `--again` is known"),
    };
    let root = child::root();
    let stamp = root.join("target/page.stamp");
    let state = state_of(&root)?;
    if !again && fs::read_to_string(&stamp).is_ok_and(|known| known == state) {
        println!("nothing under `ui/` has changed since it was last found good");
        return Ok(true);
    }
    if !check(&root)? {
        return Ok(false);
    }
    fs::create_dir_all(root.join("target")).context("could not make the folder `target`")?;
    fs::write(&stamp, state).context("could not note that the page is good")?;
    Ok(true)
}

const BROWSER_HELP: &str = "\
Runs the pages' tests in a browser against the agent in a sandbox, and those of the page of flows against the controller
over a real API server. Pictures are left in `target/agent-shots`.

usage: cargo xtask browser [--measure [ITEMS]]

  --measure    instead of that, how long a frame takes while somebody zooms, drags, searches and scrolls through so many items
               of an agent (default 10000), as one JSON line per case
";

/// Runs the pages' tests in a browser against the agent and the controller themselves.
pub(crate) fn run_with_agent(arguments: &[String]) -> Result<bool> {
    if asks_for_help(arguments) {
        print!("{BROWSER_HELP}");
        return Ok(true);
    }
    let measured = match arguments {
        [] => None,
        [word] if word == "--measure" => Some("10000"),
        [word, items] if word == "--measure" && items.parse::<u32>().is_ok() => Some(items.as_str()),
        [word, ..] => {
            bail!("unexpected argument `{word}`, hint: only `--measure` and a number of items are known")
        }
    };
    let ui = child::root().join("ui");
    let program = program::built()?;
    if !ui.join("node_modules/vitest").is_dir() && !npm(&ui, INSTALL, &[])? {
        return Ok(false);
    }
    if let Some(items) = measured {
        let mut command = Command::new("node");
        command.arg("dev/measure.mjs").current_dir(&ui);
        command.env("KILTER_PROGRAM", &program).env("KILTER_ITEMS", items).env_remove("KILTER_URL");
        return child::succeeds(&mut command);
    }
    let shots = program::target()?.join("agent-shots");
    let servers = kube::ensure()?;
    let variables = [
        ("KILTER_PROGRAM", program.as_os_str()),
        ("KILTER_SHOTS", shots.as_os_str()),
        ("KUBEBUILDER_ASSETS", servers.as_os_str()),
    ];
    npm(&ui, &["run", "test:browser"], &variables)
}

/// Runs the steps of the module doc; the answer says whether all of them went well.
fn check(root: &Path) -> Result<bool> {
    let ui = root.join("ui");
    let built = root.join("target/page");
    let out = built.to_string_lossy().into_owned();
    let steps: [&[&str]; 4] = [
        INSTALL,
        &["run", "check"],
        &["test"],
        &["run", "build", "--", "--logLevel", "warn", "--emptyOutDir", "--outDir", &out],
    ];
    for step in steps {
        if !npm(&ui, step, &[])? {
            return Ok(false);
        }
    }
    let differing = differences(&files_of(&ui.join("dist"))?, &files_of(&built)?);
    if !differing.is_empty() {
        println!("`ui/dist` is not what the sources give: {}", differing.join(", "));
        println!("hint: npm run build, in `ui/`, and commit the outcome");
        return Ok(false);
    }
    fs::write(ui.join(BUILT), built_from(root)?).context("could not note what the assets were built from")?;
    let weight: u64 = files_of(&built)?.values().map(|bytes| bytes.len() as u64).sum();
    println!("`ui/dist` is what the sources give: {weight} bytes");
    if weight > MOST {
        println!("hint: no more than {MOST} bytes are meant to be part of the binary");
        return Ok(false);
    }
    npm(&ui, &["run", "test:browser"], &[])
}

fn npm(folder: &Path, arguments: &[&str], variables: &[(&str, &OsStr)]) -> Result<bool> {
    println!("npm {}", arguments.join(" "));
    let mut command = Command::new("npm");
    command.args(arguments).current_dir(folder).envs(variables.iter().copied());
    if !child::colours() {
        command.env("NO_COLOR", "1");
    }
    child::succeeds(&mut command)
}

/// The contents of every file under `ui/` that git tracks or would track, as one line.
fn state_of(root: &Path) -> Result<String> {
    let arguments = ["ls-files", "-z", "--cached", "--others", "--exclude-standard", "--", "ui"];
    let listed = child::output_of(Command::new("git").args(arguments).current_dir(root))?;
    let mut paths: Vec<&str> = listed.split('\0').filter(|path| !path.is_empty()).collect();
    paths.sort_unstable();
    paths.dedup();
    let mut digest = Digest::new();
    for path in paths {
        digest.add(path.as_bytes());
        // A file that is listed and gone is a change too.
        digest.add(&fs::read(root.join(path)).unwrap_or_default());
    }
    Ok(digest.line())
}

/// The contents of the sources and of the committed assets, as one line.
fn built_from(root: &Path) -> Result<String> {
    let mut digest = Digest::new();
    for name in BUILD {
        let path = root.join("ui").join(name);
        let files = if path.is_dir() {
            files_of(&path)?
        } else {
            let bytes = fs::read(&path).with_context(|| format!("could not read `{}`", path.display()))?;
            BTreeMap::from([(PathBuf::new(), bytes)])
        };
        for (below, bytes) in files {
            digest.add(Path::new(name).join(below).as_os_str().as_encoded_bytes());
            digest.add(&bytes);
        }
    }
    Ok(digest.line())
}

/// A hash that is the same on every machine and with every compiler (FNV-1a); it guards against forgetting, not against
/// forging.
struct Digest(u64);

impl Digest {
    fn new() -> Self {
        Self(0xcbf2_9ce4_8422_2325)
    }

    /// Adds bytes, and where they end.
    fn add(&mut self, bytes: &[u8]) {
        for byte in bytes.iter().chain(&bytes.len().to_le_bytes()) {
            self.0 = (self.0 ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3);
        }
    }

    fn line(&self) -> String {
        format!("{:016x}\n", self.0)
    }
}

/// Every file under a folder with its content, by path from there.
fn files_of(folder: &Path) -> Result<BTreeMap<PathBuf, Vec<u8>>> {
    let mut found = BTreeMap::new();
    let mut folders = vec![folder.to_path_buf()];
    while let Some(next) = folders.pop() {
        let entries = fs::read_dir(&next).with_context(|| format!("could not read `{}`", next.display()))?;
        for entry in entries {
            let path = entry.with_context(|| format!("could not read `{}`", next.display()))?.path();
            if path.is_dir() {
                folders.push(path);
            } else {
                let bytes =
                    fs::read(&path).with_context(|| format!("could not read `{}`", path.display()))?;
                let name = path.strip_prefix(folder).unwrap_or(&path).to_path_buf();
                found.insert(name, bytes);
            }
        }
    }
    Ok(found)
}

/// The names of the files that are not the same on both sides.
fn differences(committed: &BTreeMap<PathBuf, Vec<u8>>, built: &BTreeMap<PathBuf, Vec<u8>>) -> Vec<String> {
    let mut names: Vec<&PathBuf> = committed.keys().chain(built.keys()).collect();
    names.sort_unstable();
    names.dedup();
    let differing = names.into_iter().filter(|name| committed.get(*name) != built.get(*name));
    differing.map(|name| format!("`{}`", name.display())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn files(entries: &[(&str, &str)]) -> BTreeMap<PathBuf, Vec<u8>> {
        entries.iter().map(|(name, text)| (PathBuf::from(name), text.as_bytes().to_vec())).collect()
    }

    #[test]
    fn what_differs_is_missing_or_too_much_is_named() {
        let committed = files(&[("a.js", "1"), ("b.js", "1"), ("c.js", "1")]);
        let built = files(&[("a.js", "1"), ("b.js", "2"), ("d.js", "1")]);
        assert_eq!(differences(&committed, &built), ["`b.js`", "`c.js`", "`d.js`"]);
        assert_eq!(differences(&committed, &committed), [""; 0]);
    }

    #[test]
    fn the_committed_assets_are_there_and_light_enough() {
        let assets = files_of(&child::root().join("ui/dist")).unwrap();
        assert!(assets.contains_key(Path::new("index.html")));
        assert!(assets.values().map(|bytes| bytes.len() as u64).sum::<u64>() <= MOST);
    }

    #[test]
    fn the_committed_assets_were_built_from_the_committed_sources() {
        let root = child::root();
        let noted = fs::read_to_string(root.join("ui").join(BUILT)).unwrap();
        assert_eq!(noted, built_from(&root).unwrap(), "hint: npm run build, in `ui/`, then cargo xtask page");
    }

    #[test]
    fn the_lock_file_names_no_host() {
        let lock = fs::read_to_string(child::root().join("ui/package-lock.json")).unwrap();
        assert!(!lock.contains("\"resolved\"") && !lock.contains("registry"), "a host is named");
    }

    #[test]
    fn the_state_is_that_of_the_files() {
        let root = child::root();
        assert_eq!(state_of(&root).unwrap(), state_of(&root).unwrap());
    }
}
