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
    LazyLock::new(|| built_in(include_bytes!("../../ptx/gpumap_sm_70.ptx.br")));
static SM_90: LazyLock<String> =
    LazyLock::new(|| built_in(include_bytes!("../../ptx/gpumap_sm_90.ptx.br")));

/// Bytes that are decompressed at a time.
const BUFFER: usize = 1 << 16;

/// The longest text that is decompressed; the library's have 8 MB.
const LONGEST: u64 = 1 << 30;

/// A text that comes with the library.
fn built_in(packed: &[u8]) -> String {
    let text = text_of(packed).expect("`cargo xtask ptx` compressed it, and a test reads it");
    text.into_owned()
}

/// The text of PTX as a program carries it: as it is, or compressed by Brotli. Brotli has no mark by which it is known, and
/// none is needed, as no stream is PTX too.
fn text_of(ptx: &[u8]) -> Result<Cow<'_, str>, PtxError> {
    if let Ok(text) = str::from_utf8(ptx)
        && is_ptx(text)
    {
        return Ok(Cow::Borrowed(text));
    }
    let mut text = String::new();
    let read = Decompressor::new(ptx, BUFFER)
        .take(LONGEST)
        .read_to_string(&mut text);
    match read {
        Ok(_) if is_ptx(&text) => Ok(Cow::Owned(text)),
        _ => Err(PtxError::NotPtx),
    }
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
    /// The text.
    pub text: Cow<'static, str>,
    /// The file, if it is one.
    pub path: Option<PathBuf>,
    /// Its kernels by name. To look up a kernel that is not there is an error
    /// in the eyes of the tools that watch its calls.
    kernels: HashMap<String, Entry>,
}

/// A kernel of a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Entry {
    /// Of its arguments.
    signature: u64,
    /// Where its `.entry` stands: a text has 8 MB, too many to search them for each kernel that is loaded.
    at: usize,
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
                let bytes =
                    std::fs::read(path).map_err(|error| failed(PtxError::Read(error.into())))?;
                let text = text_of(&bytes).map_err(failed)?.into_owned();
                let file = Self::new(text.into(), Some(path.clone()))?;
                // At once, not when a map is half way through a call.
                for built_in in [SM_70.as_str(), SM_90.as_str()] {
                    file.expect_same(&Self::new(built_in.into(), None)?)?;
                }
                Ok(file)
            }
        }
    }

    /// PTX that was passed in: a text, or one compressed by Brotli.
    pub(crate) fn from_bytes(ptx: impl AsRef<[u8]>) -> Result<Self> {
        match text_of(ptx.as_ref()) {
            Ok(text) => Self::new(text.into_owned().into(), None),
            Err(cause) => Err(Error::Ptx { path: None, cause }),
        }
    }

    /// What it says of its kernels, without the memory of the text.
    pub(crate) fn without_text(self) -> Self {
        Self {
            text: Cow::Owned(String::new()),
            ..self
        }
    }

    fn new(text: Cow<'static, str>, path: Option<PathBuf>) -> Result<Self> {
        match kernels(&text) {
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
        let found = self.kernels.get(symbol.name)?;
        Some(self.expect(symbol.name, symbol.signature, found.signature))
    }

    /// Whether all kernels that it shares with another text take the same arguments as those.
    pub(crate) fn expect_same(&self, other: &Self) -> Result<()> {
        for (kernel, found) in &self.kernels {
            if let Some(expected) = other.kernels.get(kernel) {
                self.expect(kernel, expected.signature, found.signature)?;
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
        let (before, kernel) = text.split_at_checked(self.kernels.get(name)?.at)?;
        alone.push_str(&before[before.rfind('\n').map_or(0, |end| end + 1)..]);
        alone.push_str(&kernel[..kernel.find("\n}\n")?]);
        alone.push_str("\n}\n");
        Some(alone)
    }

    /// Whether it is one of the texts that come with the library.
    pub(crate) fn is_built_in(&self) -> bool {
        matches!(self.text, Cow::Borrowed(_))
    }
}

/// The kernels of a text, by name.
fn kernels(text: &str) -> Result<HashMap<String, Entry>, PtxError> {
    let signatures: HashMap<_, _> = text.lines().filter_map(signature).collect();
    let entries = text.match_indices(".entry").map(|(at, entry)| {
        let behind = text[at + entry.len()..].trim_start();
        let end = behind.find(|c: char| c == '(' || c.is_whitespace());
        let kernel = behind[..end.unwrap_or(behind.len())].to_owned();
        match signatures.get(&*kernel) {
            Some(&signature) => Ok((kernel, Entry { signature, at })),
            None => Err(PtxError::NoLayout { kernel }),
        }
    });
    entries.collect()
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
        let text_of_all = text(&all);
        let found = kernels(&text_of_all).unwrap();
        assert_eq!(found.len(), 3);
        for Symbol { name, signature } in [one, two, three] {
            let kernel = found[name];
            assert_eq!(kernel.signature, signature);
            let behind = text_of_all[kernel.at..].strip_prefix(".entry").unwrap();
            assert!(behind.trim_start().starts_with(name));
        }
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
        let text = PtxText::from_bytes(twin(Some(old))).unwrap();
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
        let error = PtxText::from_bytes(twin(None)).unwrap_err();
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
            let mut kernels: Vec<_> = text.kernels.iter().collect();
            kernels.sort_by_key(|(_, kernel)| kernel.at);
            let (mut rest, mut end) = (String::new(), 0);
            for (name, kernel) in kernels {
                let alone = text.kernel_alone(name).unwrap();
                assert!(is_ptx(&alone) && !alone.contains(SYMBOL_PREFIX));
                let from = alone.find(ENTRY).unwrap();
                assert_eq!(alone.matches(".entry").count(), 1);
                assert!(alone[from..].starts_with(&format!("{ENTRY}{name}(")));
                let at = kernel.at - ENTRY.find(".entry").unwrap();
                assert!(text.text[at..].starts_with(&alone[from..]), "{name}");
                rest += &text.text[end..at];
                end = at + alone[from..].len();
            }
            rest += &text.text[end..];
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
    fn compressed_ptx_is_ptx() {
        let packed = include_bytes!("../../ptx/gpumap_sm_70.ptx.br");
        let text = PtxText::from_bytes(packed).unwrap();
        assert_eq!(text, PtxText::from_bytes(SM_70.as_str()).unwrap());
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("same.ptx.br");
        std::fs::write(&path, packed).unwrap();
        let file = PtxText::of(&PtxChoice::File(path)).unwrap();
        assert_eq!(file.text, text.text);
        // A part of it is none.
        let error = PtxText::from_bytes(&packed[..packed.len() / 2]).unwrap_err();
        let not_ptx = matches!(
            &error,
            Error::Ptx {
                path: None,
                cause: PtxError::NotPtx
            }
        );
        assert!(not_ptx, "{error}");
    }

    #[test]
    fn other_texts_are_not() {
        for text in [
            "",
            "fn main() {}",
            ".version 8.3\n",
            ".version 8.3\n.target sm_70\n\0",
        ] {
            let error = PtxText::from_bytes(text).unwrap_err();
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
