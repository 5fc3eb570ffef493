//! `cargo xtask lint`: checks the PTX that is checked in.

use anyhow::Result;
use gpumap_lint::lint::{self, Subject};

use crate::arch::Arch;
use crate::workspace::{KernelCrate, Workspace, kernel_crates};

/// What to look at, and what to do about differences.
#[derive(Debug, Default, clap::Args)]
// Those inside have a group of this name.
#[group(skip)]
pub struct Options {
    #[command(flatten)]
    lint: lint::Options,
    /// Of these packages only.
    packages: Vec<String>,
}

/// Runs the command.
pub fn run(workspace: &Workspace, options: &Options) -> Result<()> {
    let mut subjects = Vec::new();
    for kernels in kernel_crates(&options.packages)? {
        let texts = Arch::ALL.map(|arch| Ok((arch, workspace.read_ptx(kernels, arch)?)));
        let texts: Result<Vec<_>> = texts.into_iter().collect();
        subjects.push(subject(workspace, kernels, texts?));
    }
    lint::lint(&workspace.target, &subjects, &options.lint)
}

/// `cargo xtask lint` without options.
pub fn check_shipped(workspace: &Workspace) -> Result<()> {
    run(workspace, &Options::default())
}

/// PTX of a crate, which may be another than what is checked in.
pub fn subject(workspace: &Workspace, kernels: KernelCrate, texts: Vec<(Arch, String)>) -> Subject {
    Subject {
        name: kernels.package.to_owned(),
        folder: workspace.root.join(kernels.folder),
        texts,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIBRARY: &str = "gpumap-kernels";
    /// Kernels with every order and width.
    const TESTS: &str = "gpumap-test-kernels";

    /// The PTX of a crate.
    fn shipped(package: &str, arch: Arch) -> String {
        let workspace = Workspace::find().unwrap();
        let kernels = kernel_crates(&[package.to_owned()]).unwrap()[0];
        workspace.read_ptx(kernels, arch).unwrap()
    }

    /// What the lint says of such a text without an assembler.
    fn findings(package: &str, arch: Arch, text: &str) -> Vec<String> {
        let workspace = Workspace::find().unwrap();
        let kernels = kernel_crates(&[package.to_owned()]).unwrap()[0];
        let texts = vec![(arch, text.to_owned())];
        lint::findings(&subject(&workspace, kernels, texts)).unwrap()
    }

    /// The text with a bug in it.
    fn plant(text: &str, kernel: &str, code: &str, becomes: &str) -> String {
        let (before, rest) = text.split_once(&format!(".entry {kernel}(")).unwrap();
        let (body, behind) = rest.split_once("\n}\n").unwrap();
        assert!(body.contains(code), "{kernel} has no {code}");
        let body = body.replacen(code, becomes, 1);
        format!("{before}.entry {kernel}({body}\n}}\n{behind}")
    }

    #[test]
    fn planted_bugs_of_order_are_found() {
        let arch = Arch::Sm90;
        let text = shipped(TESTS, arch);
        assert_eq!(findings(TESTS, arch, &text), [""; 0]);
        let words = "facade_atomic_words";
        for (kernel, code, becomes, finding) in [
            (
                words,
                "ld.acquire.gpu",
                "ld.relaxed.gpu",
                "acquire: expected 4, found 3",
            ),
            (
                words,
                "atom.acq_rel.gpu",
                "atom.release.gpu",
                "release: expected 4, found 5",
            ),
            (
                words,
                "st.release.gpu",
                "st.relaxed.gpu",
                "release: expected 4, found 3",
            ),
            (
                words,
                "fence.acq_rel.gpu;",
                "",
                "fence: expected 2, found 1",
            ),
            (
                words,
                "fence.acq_rel.gpu;",
                "fence.acq_rel.cta;",
                "fence: expected 2, found 1",
            ),
            (
                "facade_atomic_cas_128",
                "atom.acq_rel.gpu.global.exch.b128",
                "st.relaxed.gpu.global.b64 [%rd1], %rd2; st.relaxed.gpu.global.b64 [%rd1+8], %rd3; mov.b128",
                "exch.128: expected 1, found 0",
            ),
            (
                "facade_atomic_cas_128",
                "ld.relaxed.gpu.global.b128",
                "ld.relaxed.gpu.global.b64 %rd2, [%rd1]; ld.relaxed.gpu.global.b64",
                "ld.128: expected 1, found 0",
            ),
        ] {
            let found = findings(TESTS, arch, &plant(&text, kernel, code, becomes));
            let line = format!("{kernel} (sm_90): {finding}");
            assert!(found.contains(&line), "{line}: {found:?}");
        }
    }

    #[test]
    fn planted_bugs_of_the_librarys_kernels_are_found() {
        for (arch, kernel, code, becomes, kind) in [
            (
                Arch::Sm90,
                "insert_8_8_wide",
                "cas.b128",
                "cas.b64",
                "cas.128",
            ),
            (
                Arch::Sm70,
                "insert_8_8_split",
                "st.relaxed.gpu.global.b128",
                "st.global.v2.b64",
                "st.128",
            ),
            (
                Arch::Sm90,
                "assign_8_8_wide",
                "fence.acq_rel.gpu;",
                "",
                "fence",
            ),
            (
                Arch::Sm90,
                "reduce_add_4",
                "atom.acq_rel",
                "atom.relaxed",
                "acq_rel",
            ),
        ] {
            let text = shipped(LIBRARY, arch);
            let found = findings(LIBRARY, arch, &plant(&text, kernel, code, becomes));
            let begin = format!("{kernel} ({arch}): {kind}: expected ");
            assert!(
                found.iter().any(|line| line.starts_with(&begin)),
                "{begin}: {found:?}"
            );
        }
    }

    #[test]
    fn unread_acquires_are_found() {
        let text = plant(
            &shipped(TESTS, Arch::Sm90),
            "facade_atomic_pairs",
            "ret;",
            "atom.acquire.gpu.global.add.u32 %r999, [%rd1], 1; ret;",
        );
        let found = findings(TESTS, Arch::Sm90, &text);
        let begin = "facade_atomic_pairs (sm_90): nothing reads the result of atom.acquire.gpu.global.add.u32: ";
        assert!(
            found.iter().any(|line| line.starts_with(begin)),
            "{found:?}"
        );
    }
}
