//! The API server of Kubernetes and its etcd, for the tests of EventFlow: nothing packages them, so they are built once.
//!
//! Decided here: where they are looked for (`KUBEBUILDER_ASSETS`, the PATH, `target/tools/kube`; both in one folder,
//! because a server works with few releases of etcd), and that they are built from the module in `xtask/kube` when they
//! are nowhere. The tests look in the same places.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::child;

/// The programs, each with the package that it is built from.
const SERVERS: [(&str, &str); 2] =
    [("etcd", "go.etcd.io/etcd/server/v3"), ("kube-apiserver", "k8s.io/kubernetes/cmd/kube-apiserver")];

/// Makes sure that both programs are there; returns their folder. What it says goes to stderr: a benchmark prints figures.
pub(crate) fn ensure() -> Result<PathBuf> {
    let built = child::root().join("target/tools/kube");
    let given = std::env::var_os("KUBEBUILDER_ASSETS").map(PathBuf::from);
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut folders = given.into_iter().chain(std::env::split_paths(&path)).chain([built.clone()]);
    if let Some(found) = folders.find(|folder| SERVERS.iter().all(|(name, _)| folder.join(name).is_file())) {
        eprintln!("kube-apiserver and its etcd are there");
        return Ok(found);
    }
    for (name, package) in SERVERS.into_iter().filter(|(name, _)| !built.join(name).is_file()) {
        eprintln!("{name} for EventFlow is missing: it is built once, which takes minutes");
        build(&built.join(name), package)?;
    }
    Ok(built)
}

/// Builds one of the programs. It appears under its name only when it is whole.
fn build(program: &Path, package: &str) -> Result<()> {
    let module = child::root().join("xtask/kube");
    let version = version(&module)?;
    let unfinished = program.with_extension("new");
    let prefix = "k8s.io/component-base/version";
    let (major, minor) = version.trim_start_matches('v').split_once('.').unwrap_or(("1", "0"));
    let minor = minor.split('.').next().unwrap_or(minor);
    let flags = format!(
        "-s -w -X {prefix}.gitVersion={version} -X {prefix}.gitMajor={major} -X {prefix}.gitMinor={minor}"
    );
    // What the compiler puts aside takes gigabytes, which a `/tmp` may not have.
    let aside = program.with_file_name("aside");
    std::fs::create_dir_all(&aside).with_context(|| format!("could not make `{}`", aside.display()))?;
    let mut go = Command::new("go");
    go.current_dir(&module).env("CGO_ENABLED", "0").env("TMPDIR", &aside);
    go.args(["build", "-trimpath", "-ldflags", &flags, "-o"]).arg(&unfinished).arg(package);
    let built = child::succeeds(&mut go).context("hint: install Go, or set KUBEBUILDER_ASSETS")?;
    if !built {
        bail!("failed to build `{package}`, hint: set KUBEBUILDER_ASSETS to a folder that has the programs");
    }
    std::fs::rename(&unfinished, program)
        .with_context(|| format!("could not put `{}` in its place", program.display()))
}

/// The release of Kubernetes that the module asks for.
fn version(module: &Path) -> Result<String> {
    let file = module.join("go.mod");
    let text =
        std::fs::read_to_string(&file).with_context(|| format!("could not read `{}`", file.display()))?;
    let line = text.lines().find_map(|line| line.trim().strip_prefix("k8s.io/kubernetes "));
    let version = line.and_then(|line| line.split_whitespace().next());
    version.map(str::to_owned).with_context(|| format!("`{}` names no release of Kubernetes", file.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_module_names_a_release() {
        let version = version(&child::root().join("xtask/kube")).unwrap();
        assert!(version.starts_with("v1.") && version.split('.').count() == 3, "{version}");
    }
}
