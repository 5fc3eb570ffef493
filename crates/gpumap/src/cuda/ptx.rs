//! The kernels as PTX text: the two that are built in, and files.

use std::borrow::Cow;
use std::collections::HashSet;
use std::path::PathBuf;

use crate::device::PtxChoice;
use crate::error::{Error, PtxError, Result};

const SM_70: &str = include_str!("../../ptx/gpumap_sm_70.ptx");
const SM_90: &str = include_str!("../../ptx/gpumap_sm_90.ptx");

/// How a kernel begins in the texts that come with the library.
const ENTRY: &str = ".visible .entry ";

/// A PTX text that has been looked at, and where it is from.
#[derive(Debug)]
pub(crate) struct PtxText {
    /// The text; holds a PTX header.
    pub text: Cow<'static, str>,
    /// The file, if it is one.
    pub path: Option<PathBuf>,
}

impl PtxText {
    /// The text that a choice stands for. `Auto` must have been resolved; it is the older one.
    pub(crate) fn of(choice: &PtxChoice) -> Result<Self> {
        match choice {
            PtxChoice::Auto | PtxChoice::Sm70 => Ok(Self::built_in(SM_70)),
            PtxChoice::Sm90 => Ok(Self::built_in(SM_90)),
            PtxChoice::File(path) => {
                let failed = |cause| Error::Ptx {
                    path: Some(path.clone()),
                    cause,
                };
                let text = std::fs::read_to_string(path).map_err(|error| match error.kind() {
                    // What is not UTF-8 is a cubin, a fatbin or no kernel at all.
                    std::io::ErrorKind::InvalidData => failed(PtxError::NotPtx),
                    _ => failed(PtxError::Read(error)),
                })?;
                if !is_ptx(&text) {
                    return Err(failed(PtxError::NotPtx));
                }
                Ok(Self {
                    text: text.into(),
                    path: Some(path.clone()),
                })
            }
        }
    }

    /// A text that was passed in.
    pub(crate) fn from_text(text: &str) -> Result<Self> {
        if !is_ptx(text) {
            return Err(Error::Ptx {
                path: None,
                cause: PtxError::NotPtx,
            });
        }
        Ok(Self {
            text: text.to_owned().into(),
            path: None,
        })
    }

    /// The names of its kernels. To ask the driver for one that is not there is an error in the
    /// eyes of the tools that watch its calls.
    pub(crate) fn entries(&self) -> HashSet<String> {
        let name = |after: &str| {
            let end = after.find(|c: char| c == '(' || c.is_whitespace());
            after[..end.unwrap_or(after.len())].to_owned()
        };
        let split = self.text.split(".entry").skip(1);
        split.map(|after| name(after.trim_start())).collect()
    }

    /// The text of one kernel by itself: what stands before the first kernel, and that kernel,
    /// which ends at the first brace that begins a line.
    ///
    /// For the texts that come with the library: their kernels call nothing and share nothing.
    pub(crate) fn kernel_alone(&self, name: &str) -> Option<String> {
        let text = &*self.text;
        let preamble = &text[..text.find(ENTRY)?];
        let start = text.find(&format!("{ENTRY}{name}("))?;
        let length = text[start..].find("\n}\n")?;
        Some(format!("{preamble}{}\n}}\n", &text[start..start + length]))
    }

    /// Whether it is one of the texts that come with the library.
    pub(crate) fn is_built_in(&self) -> bool {
        matches!(self.text, Cow::Borrowed(_))
    }

    fn built_in(text: &'static str) -> Self {
        Self {
            text: text.into(),
            path: None,
        }
    }
}

/// Whether a text has the header that every PTX module starts with. A NUL would end the text
/// early for the driver.
fn is_ptx(text: &str) -> bool {
    let has = |directive| {
        text.lines()
            .any(|line| line.trim_start().starts_with(directive))
    };
    has(".version ") && has(".target ") && !text.contains('\0')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_built_in_texts_are_ptx() {
        assert!(is_ptx(SM_70) && SM_70.contains("sm_70"));
        assert!(is_ptx(SM_90) && SM_90.contains("sm_90"));
    }

    #[test]
    fn kernels_are_found_in_the_text() {
        let text = PtxText::built_in(
            ".visible .entry one(\n.param .u64 a\n)\n{ ret; }\n.entry two ()\n.entry\n three(",
        );
        let mut names: Vec<_> = text.entries().into_iter().collect();
        names.sort_unstable();
        assert_eq!(names, ["one", "three", "two"]);
        let wide = gpumap_kernels::kernels::KERNELS_8_8_WIDE.insert.name();
        assert!(PtxText::built_in(SM_90).entries().contains(wide));
        assert!(!PtxText::built_in(SM_70).entries().contains(wide));
    }

    #[test]
    fn kernels_stand_alone() {
        for text in [SM_70, SM_90] {
            let text = PtxText::built_in(text);
            let entries = text.entries();
            assert!(entries.len() > 20);
            let mut rest = text.text.to_string();
            for name in &entries {
                let alone = PtxText::from_text(&text.kernel_alone(name).unwrap()).unwrap();
                assert!(alone.entries().into_iter().eq([name.clone()]));
                let from = alone.text.find(ENTRY).unwrap();
                assert!(rest.contains(&alone.text[from..]));
                rest = rest.replace(&alone.text[from..], "");
            }
            // Nothing else stands between them, so nothing can be missing in a part.
            let after = &rest[rest.find(".address_size").unwrap()..];
            let other = |line: &&str| !line.trim().is_empty() && !line.trim().starts_with("//");
            let other: Vec<_> = after.lines().skip(1).filter(other).collect();
            let shared = ".extern .shared .align 16 .b8 gpumap_dynamic_shared[];";
            assert_eq!(other, [shared]);
        }
        assert!(PtxText::built_in(SM_70).kernel_alone("add").is_none());
    }

    #[test]
    fn other_texts_are_not() {
        for text in [
            "",
            "fn main() {}",
            ".version 8.3\n",
            ".version 8.3\n.target sm_70\n\0",
        ] {
            let error = PtxText::from_text(text).unwrap_err();
            assert!(
                matches!(
                    error,
                    Error::Ptx {
                        path: None,
                        cause: PtxError::NotPtx
                    }
                ),
                "{text:?}: {error}"
            );
        }
    }
}
