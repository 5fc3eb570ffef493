//! The kernels as PTX text: the two that are built in, and files. Each says how the arguments of its
//! kernels are laid out, and a kernel whose arguments this program lays out otherwise is refused.

use std::borrow::Cow;
use std::collections::HashMap;
use std::io::Read;
use std::path::PathBuf;
use std::sync::LazyLock;

use brotli_decompressor::Decompressor;

use gpumap_simt::kernel::{Kernel, KernelArgs};
use gpumap_simt::layout::SYMBOL_PREFIX;

use crate::device::PtxChoice;
use crate::error::{Error, PtxError, Result};

/// The texts that come with the library.
static SM_70: LazyLock<String> =
    LazyLock::new(|| inflate(include_bytes!("../../ptx/gpumap_sm_70.ptx.br")));
static SM_90: LazyLock<String> =
    LazyLock::new(|| inflate(include_bytes!("../../ptx/gpumap_sm_90.ptx.br")));

/// Bytes that are decompressed at a time.
const BUFFER: usize = 1 << 16;

/// A text as it was before it was compressed.
fn inflate(packed: &[u8]) -> String {
    let mut text = String::new();
    Decompressor::new(packed, BUFFER)
        .read_to_string(&mut text)
        .expect("`cargo xtask ptx` compressed it, and a test reads it");
    text
}

/// How a kernel begins in the texts that come with the library.
const ENTRY: &str = ".visible .entry ";

/// A kernel as it is searched for: by its name, and by the layout of the arguments that it will get.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Symbol {
    pub name: &'static str,
    /// Its [`signature`](gpumap_simt::layout::signature).
    pub signature: u64,
}

impl<A: KernelArgs> From<&'static Kernel<A>> for Symbol {
    fn from(kernel: &'static Kernel<A>) -> Self {
        Self {
            name: kernel.name(),
            signature: kernel.signature(),
        }
    }
}

impl From<(&'static str, u64)> for Symbol {
    /// Of a name and a signature.
    fn from((name, signature): (&'static str, u64)) -> Self {
        Self { name, signature }
    }
}

/// A PTX text that has been looked at, and where it is from.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct PtxText {
    /// The text; holds a PTX header.
    pub text: Cow<'static, str>,
    /// The file, if it is one.
    pub path: Option<PathBuf>,
    /// Its kernels' signatures, by name. To look up a kernel that is not there is an error
    /// in the eyes of the tools that watch its calls.
    kernels: HashMap<String, u64>,
}

impl PtxText {
    /// The text that a choice stands for. `Auto` must have been resolved; it is the older one.
    pub(crate) fn of(choice: &PtxChoice) -> Result<Self> {
        match choice {
            PtxChoice::Auto | PtxChoice::Sm70 => Self::new(SM_70.as_str().into(), None),
            PtxChoice::Sm90 => Self::new(SM_90.as_str().into(), None),
            PtxChoice::File(path) => {
                let failed = |cause| Error::Ptx {
                    path: Some(path.clone()),
                    cause,
                };
                let text = std::fs::read_to_string(path).map_err(|error| match error.kind() {
                    // What is not UTF-8 is a cubin, a fatbin or no kernel at all.
                    std::io::ErrorKind::InvalidData => failed(PtxError::NotPtx),
                    _ => failed(PtxError::Read(error.into())),
                })?;
                let file = Self::new(text.into(), Some(path.clone()))?;
                // At once, not when a map is half way through a call.
                for built_in in [SM_70.as_str(), SM_90.as_str()] {
                    file.expect_same(&Self::new(built_in.into(), None)?)?;
                }
                Ok(file)
            }
        }
    }

    /// A text that was passed in.
    pub(crate) fn from_text(text: &str) -> Result<Self> {
        Self::new(text.to_owned().into(), None)
    }

    /// What it says of its kernels, without the memory of the text.
    pub(crate) fn without_text(self) -> Self {
        Self {
            text: Cow::Owned(String::new()),
            ..self
        }
    }

    fn new(text: Cow<'static, str>, path: Option<PathBuf>) -> Result<Self> {
        let kernels = if is_ptx(&text) {
            kernels(&text)
        } else {
            Err(PtxError::NotPtx)
        };
        match kernels {
            Ok(kernels) => Ok(Self {
                text,
                path,
                kernels,
            }),
            Err(cause) => Err(Error::Ptx { path, cause }),
        }
    }

    /// Whether it has a kernel of this name, and if so whether that takes the same arguments.
    pub(crate) fn find(&self, symbol: Symbol) -> Option<Result<()>> {
        let &found = self.kernels.get(symbol.name)?;
        Some(self.expect(symbol.name, symbol.signature, found))
    }

    /// Whether all kernels that it shares with another text take the same arguments as those.
    pub(crate) fn expect_same(&self, other: &Self) -> Result<()> {
        for (kernel, &found) in &self.kernels {
            if let Some(&expected) = other.kernels.get(kernel) {
                self.expect(kernel, expected, found)?;
            }
        }
        Ok(())
    }

    fn expect(&self, kernel: &str, expected: u64, found: u64) -> Result<()> {
        if found == expected {
            return Ok(());
        }
        let kernel = kernel.to_owned();
        let cause = PtxError::Layout {
            kernel,
            expected,
            found,
        };
        let path = self.path.clone();
        Err(Error::Ptx { path, cause })
    }

    /// The text of one kernel by itself: what stands before the first kernel, and that kernel,
    /// which ends at the first brace that begins a line.
    ///
    /// For the texts that come with the library: their kernels call nothing and share nothing.
    pub(crate) fn kernel_alone(&self, name: &str) -> Option<String> {
        let text = &*self.text;
        let lines = text[..text.find(ENTRY)?].split_inclusive('\n');
        // The signatures of all of them are of no use to the device.
        let mut alone: String = lines.filter(|line| !line.contains(SYMBOL_PREFIX)).collect();
        let start = text.find(&format!("{ENTRY}{name}("))?;
        let length = text[start..].find("\n}\n")?;
        alone.push_str(&text[start..start + length]);
        alone.push_str("\n}\n");
        Some(alone)
    }

    /// Whether it is one of the texts that come with the library.
    pub(crate) fn is_built_in(&self) -> bool {
        matches!(self.text, Cow::Borrowed(_))
    }
}

/// The signatures of the kernels of a text, by name.
fn kernels(text: &str) -> Result<HashMap<String, u64>, PtxError> {
    let signatures: HashMap<_, _> = text.lines().filter_map(signature).collect();
    let name = |after: &str| {
        let after = after.trim_start();
        let end = after.find(|c: char| c == '(' || c.is_whitespace());
        after[..end.unwrap_or(after.len())].to_owned()
    };
    let names = text.split(".entry").skip(1).map(name);
    names
        .map(|kernel| match signatures.get(&*kernel) {
            Some(&signature) => Ok((kernel, signature)),
            None => Err(PtxError::NoLayout { kernel }),
        })
        .collect()
}

/// The kernel and its signature, if a line of a text declares one: the 8 bytes of a symbol,
/// `.visible .global .align 1 .b8 gpumap_layout_NAME[8] = {1, 2, 3, 4, 5, 6, 7, 8};`. The last bytes are
/// left out where they are zeros.
fn signature(line: &str) -> Option<(&str, u64)> {
    let (_, symbol) = line.split_once(SYMBOL_PREFIX)?;
    let (kernel, value) = symbol.split_once("[8] = {")?;
    let (bytes, _) = value.split_once("};")?;
    let mut signature = [0; 8];
    for (i, byte) in bytes.split(',').enumerate() {
        *signature.get_mut(i)? = byte.trim().parse().ok()?;
    }
    Some((kernel, u64::from_le_bytes(signature)))
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
    use gpumap_kernels::kernels::{Encoding, kernels_of, pairs_8_8_wide};
    use gpumap_kernels::primitives::order;
    use gpumap_simt::layout;

    #[test]
    fn the_built_in_texts_are_ptx() {
        assert!(is_ptx(&SM_70) && SM_70.contains("sm_70"));
        assert!(is_ptx(&SM_90) && SM_90.contains("sm_90"));
    }

    /// Two programs' idea of one kernel: the second has swapped two fields of a struct in the arguments.
    macro_rules! twin {
        ($module:ident, $first:ident, $second:ident) => {
            mod $module {
                use gpumap_simt::{kernel, kernel_args};

                kernel_args! {
                    /// A part of [`TwinArgs`].
                    pub struct Part {
                        /// A word,
                        pub $first: u32,
                        /// and another.
                        pub $second: u32,
                    }
                }
                kernel_args! {
                    /// Arguments of [`TWIN`].
                    pub struct TwinArgs {
                        /// What differs.
                        pub part: Part,
                    }
                }
                kernel! {
                    /// Does nothing.
                    pub static TWIN = fn twin(_args: TwinArgs) {}
                }
            }
        };
    }
    twin!(old, keys, values);
    twin!(new, values, keys);

    fn declaration(symbol: Symbol) -> String {
        layout::declaration(symbol.name, symbol.signature)
    }

    /// A text with the kernel `twin`, compiled for these arguments if any.
    fn twin(symbol: Option<Symbol>) -> String {
        let symbol = symbol.map(declaration).unwrap_or_default();
        format!(".version 7.0\n.target sm_70\n{symbol}{ENTRY}twin()\n{{ ret; }}\n")
    }

    #[test]
    fn kernels_are_found_in_the_text() {
        let text = |symbols: &str| {
            let entries = ".visible .entry one(\n.param .u64 a\n)\n{ ret; }\n.entry two ()\n";
            format!("{symbols}{entries}.entry\n three(")
        };
        let [one, two, three] = [("one", 1), ("two", u64::MAX), ("three", 1 << 63)]
            .map(|(name, signature)| Symbol { name, signature });
        let all = [one, two, three].map(declaration).concat();
        let found = kernels(&text(&all)).unwrap();
        assert_eq!(
            found,
            [one, two, three]
                .map(|s| (s.name.to_owned(), s.signature))
                .into()
        );
        let two_only = declaration(two);
        assert!(
            matches!(kernels(&text(&two_only)), Err(PtxError::NoLayout { kernel }) if kernel == "one")
        );
        let of = |value: &str| {
            let line = format!(".global .align 1 .b8 {SYMBOL_PREFIX}one{value}");
            signature(&line).map(|(_, signature)| signature)
        };
        assert_eq!(of("[8] = {1, 2};"), Some(513));
        for broken in [
            "",
            "[8];",
            "[8] = {};",
            "[8] = {1, 2, 3, 4, 5, 6, 7, 256};",
            "[8] = {1, 2, 3, 4, 5, 6, 7, 8, 9};",
        ] {
            assert_eq!(of(broken), None, "{broken}");
        }
    }

    // Audit finding 14.
    #[test]
    fn a_kernel_with_other_arguments_is_refused() {
        let (old, new) = (Symbol::from(&old::TWIN), Symbol::from(&new::TWIN));
        let text = PtxText::from_text(&twin(Some(old))).unwrap();
        assert!(text.find(old).unwrap().is_ok());
        let error = text.find(new).unwrap().unwrap_err();
        let Error::Ptx { path: None, cause } = &error else {
            panic!("{error}");
        };
        assert!(
            matches!(
                cause,
                PtxError::Layout { kernel, expected, found }
                    if kernel == "twin" && *expected == new.signature && *found == old.signature
            ),
            "{error}"
        );
        assert!(error.to_string().contains("cargo xtask ptx"), "{error}");
        // A kernel that is not there at all is searched elsewhere.
        let name = "triplet";
        assert!(text.find(Symbol { name, ..old }).is_none());
    }

    // Audit finding 14.
    #[test]
    fn texts_that_do_not_tell_their_layouts_are_refused() {
        let error = PtxText::from_text(&twin(None)).unwrap_err();
        assert!(
            matches!(
                &error,
                Error::Ptx { path: None, cause: PtxError::NoLayout { kernel } } if kernel == "twin"
            ),
            "{error}"
        );
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("old.ptx");
        std::fs::write(&path, twin(None)).unwrap();
        let error = PtxText::of(&PtxChoice::File(path.clone())).unwrap_err();
        assert!(
            matches!(
                &error,
                Error::Ptx { path: Some(named), cause: PtxError::NoLayout { .. } } if *named == path
            ),
            "{error}"
        );
    }

    // Audit finding 14.
    #[test]
    fn files_of_another_version_are_refused_when_they_are_read() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("other.ptx");
        let choice = PtxChoice::File(path.clone());
        let number = Symbol::from(&order::NUMBER);
        let one = |signature| {
            let symbol = declaration(Symbol {
                signature,
                ..number
            });
            let header = ".version 7.0\n.target sm_70\n";
            format!("{header}{symbol}{ENTRY}{}()\n{{ ret; }}\n", number.name)
        };
        std::fs::write(&path, one(number.signature)).unwrap();
        PtxText::of(&choice).unwrap();
        std::fs::write(&path, one(!number.signature)).unwrap();
        let error = PtxText::of(&choice).unwrap_err();
        assert!(
            matches!(
                &error,
                Error::Ptx { path: Some(named), cause: PtxError::Layout { kernel, .. } }
                    if *named == path && kernel == number.name
            ),
            "{error}"
        );
        // The texts that are built in are good files.
        std::fs::write(&path, SM_90.as_str()).unwrap();
        PtxText::of(&choice).unwrap();
    }

    #[test]
    fn the_built_in_texts_have_the_kernels_of_every_map_and_take_their_arguments() {
        let text = |choice| PtxText::of(&choice).unwrap();
        let texts = [
            (Encoding::Split, text(PtxChoice::Sm70)),
            (Encoding::Wide, text(PtxChoice::Sm90)),
        ];
        for key_bytes in [4, 8] {
            for (value_bytes, (encoding, text)) in [0, 4, 8]
                .into_iter()
                .flat_map(|bytes| texts.iter().map(move |text| (bytes, text)))
            {
                let set = kernels_of([key_bytes, value_bytes], *encoding);
                for entry in set.entries() {
                    let symbol = Symbol::from(entry);
                    assert!(
                        text.find(symbol).is_some_and(|found| found.is_ok()),
                        "{entry:?}"
                    );
                }
            }
        }
        let wide = Symbol::from(&pairs_8_8_wide::INSERT_8_8_WIDE);
        assert!(texts[0].1.find(wide).is_none());
        for (_, text) in &texts {
            assert!(text.find(Symbol::from(&order::NUMBER)).unwrap().is_ok());
        }
    }

    #[test]
    fn kernels_stand_alone() {
        for choice in [PtxChoice::Sm70, PtxChoice::Sm90] {
            let text = PtxText::of(&choice).unwrap();
            assert!(text.is_built_in() && text.kernels.len() > 20);
            let mut rest = text.text.to_string();
            for name in text.kernels.keys() {
                let alone = text.kernel_alone(name).unwrap();
                assert!(is_ptx(&alone) && !alone.contains(SYMBOL_PREFIX));
                let from = alone.find(ENTRY).unwrap();
                assert_eq!(alone.matches(".entry").count(), 1);
                assert!(alone[from..].starts_with(&format!("{ENTRY}{name}(")));
                assert!(rest.contains(&alone[from..]));
                rest = rest.replace(&alone[from..], "");
            }
            // Nothing else stands between them, so nothing can be missing in a part.
            let after = &rest[rest.find(".address_size").unwrap()..];
            let other = |line: &&str| {
                let line = line.trim();
                !line.is_empty() && !line.starts_with("//") && signature(line).is_none()
            };
            let other: Vec<_> = after.lines().skip(1).filter(other).collect();
            let shared = ".extern .shared .align 16 .b8 gpumap_dynamic_shared[];";
            assert_eq!(other, [shared]);
            assert!(text.kernel_alone("add").is_none());
        }
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
