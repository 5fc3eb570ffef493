//! Splits PTX text into its kernels and their instructions. Not a PTX parser: it knows
//! comments, braces and statements, which is all that counting needs.

use std::ops::Range;

use anyhow::{Context, Result, bail};

/// A PTX file, taken apart.
#[derive(Debug)]
pub struct Module {
    /// The text with every comment and string blanked, byte for byte at the same place.
    blanked: String,
    /// The kernels, in the file's order.
    pub entries: Vec<Entry>,
    /// The names of device functions, declared or defined.
    pub functions: Vec<String>,
}

/// One kernel.
#[derive(Debug)]
pub struct Entry {
    /// Its name, as the driver looks it up.
    pub name: String,
    /// The byte after the parameter list's closing parenthesis.
    pub after_parameters: usize,
    body: Range<usize>,
}

/// One instruction: what it does and to what.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Instruction<'a> {
    /// Its predicate, as in `@!%p1`; empty without one.
    pub guard: &'a str,
    /// The operation with its modifiers, as in `shfl.sync.idx.b32`.
    pub opcode: &'a str,
    /// The rest of the statement.
    pub operands: &'a str,
}

impl Module {
    /// Takes `text` apart.
    pub fn parse(text: &str) -> Result<Self> {
        let blanked = blank(text);
        let mut module = Module {
            entries: Vec::new(),
            functions: Vec::new(),
            blanked: String::new(),
        };
        let mut at = 0;
        while let Some((kind, start)) = next_routine(&blanked, at) {
            at = start + kind.len();
            if kind == ".func" {
                let (name, end) = function(&blanked, at)?;
                module.functions.push(name);
                at = end;
            } else {
                let entry = entry(&blanked, at)?;
                at = entry.body.end;
                module.entries.push(entry);
            }
        }
        module.blanked = blanked;
        Ok(module)
    }

    /// The instructions of `entry`, which must be one of this module's.
    pub fn instructions<'a>(&'a self, entry: &Entry) -> impl Iterator<Item = Instruction<'a>> {
        self.statements(entry).filter_map(instruction)
    }

    /// What is between its parameters and its code.
    pub fn between(&self, entry: &Entry) -> &str {
        &self.blanked[entry.after_parameters..entry.body.start - 1]
    }

    /// Its statements: instructions and directives, with the braces, labels and predicates before each.
    pub fn statements<'a>(&'a self, entry: &Entry) -> impl Iterator<Item = &'a str> {
        self.blanked[entry.body.clone()].split(';').map(str::trim)
    }
}

fn next_routine(text: &str, from: usize) -> Option<(&'static str, usize)> {
    [".entry", ".func"]
        .into_iter()
        .filter_map(|kind| {
            let mut at = from;
            loop {
                let start = at + text[at..].find(kind)?;
                at = start + kind.len();
                // Not `.function_name`, nor a label that ends in `.entry`.
                if text[at..].starts_with(|c: char| c.is_whitespace() || c == '(') {
                    return Some((kind, start));
                }
            }
        })
        .min_by_key(|&(_, start)| start)
}

fn entry(text: &str, from: usize) -> Result<Entry> {
    let open = from
        + text[from..]
            .find('(')
            .context("an entry without parameters")?;
    let name = text[from..open].trim().to_owned();
    let after_parameters = closing(text, open)?;
    let brace = after_parameters
        + text[after_parameters..]
            .find('{')
            .with_context(|| format!("entry {name} has no body"))?;
    let end = closing(text, brace)?;
    Ok(Entry {
        name,
        after_parameters,
        body: brace + 1..end - 1,
    })
}

/// The name of the device function whose `.func` ends before `from`, and where it ends.
fn function(text: &str, from: usize) -> Result<(String, usize)> {
    let mut at = from + text[from..].len() - text[from..].trim_start().len();
    if text[at..].starts_with('(') {
        at = closing(text, at)?; // the return value
    }
    let name: String = text[at..]
        .trim_start()
        .chars()
        .take_while(|&c| !c.is_whitespace() && !"(;{".contains(c))
        .collect();
    let stop = at
        + text[at..]
            .find([';', '{'])
            .with_context(|| format!("function {name} does not end"))?;
    let end = match text.as_bytes()[stop] {
        b'{' => closing(text, stop)?,
        _ => stop + 1,
    };
    Ok((name, end))
}

/// The byte after the bracket that closes the one at `open`.
fn closing(text: &str, open: usize) -> Result<usize> {
    let pair = match text.as_bytes()[open] {
        b'(' => (b'(', b')'),
        _ => (b'{', b'}'),
    };
    let mut depth = 0_usize;
    for (offset, byte) in text.bytes().enumerate().skip(open) {
        if byte == pair.0 {
            depth += 1;
        } else if byte == pair.1 {
            depth -= 1;
            if depth == 0 {
                return Ok(offset + 1);
            }
        }
    }
    bail!("the bracket at byte {open} is never closed")
}

/// The instruction of one statement, past scopes, labels and its predicate. Directives such
/// as `.reg` are none.
pub fn instruction(statement: &str) -> Option<Instruction<'_>> {
    let mut rest = statement.trim();
    let mut guard = "";
    loop {
        let next = rest.trim_start_matches(['{', '}']).trim_start();
        let next = match next.split_once(char::is_whitespace) {
            Some((first, after)) if first.ends_with(':') => after.trim_start(),
            Some((first, after)) if first.starts_with('@') => {
                guard = first;
                after.trim_start()
            }
            _ if next.ends_with(':') => "",
            _ => next,
        };
        if next.len() == rest.len() {
            break;
        }
        rest = next;
    }
    if !rest.starts_with(|c: char| c.is_ascii_lowercase()) {
        return None;
    }
    let (opcode, operands) = rest.split_once(char::is_whitespace).unwrap_or((rest, ""));
    Some(Instruction {
        guard,
        opcode,
        operands: operands.trim(),
    })
}

/// `text` with comments and strings replaced by blanks; offsets stay what they were.
fn blank(text: &str) -> String {
    let bytes = text.as_bytes();
    let mut out = bytes.to_vec();
    let mut at = 0;
    while at < bytes.len() {
        let rest = &text.as_bytes()[at..];
        let end = if rest.starts_with(b"//") {
            find(bytes, at + 2, b"\n")
        } else if rest.starts_with(b"/*") {
            (find(bytes, at + 2, b"*/") + 2).min(bytes.len())
        } else if rest.starts_with(b"\"") {
            (find(bytes, at + 1, b"\"") + 1).min(bytes.len())
        } else {
            at += 1;
            continue;
        };
        for byte in &mut out[at..end] {
            if *byte != b'\n' {
                *byte = b' ';
            }
        }
        at = end;
    }
    // Blanked ranges begin and end at ASCII bytes, so what is left is whole characters.
    String::from_utf8(out).unwrap_or_default()
}

fn find(bytes: &[u8], from: usize, needle: &[u8]) -> usize {
    bytes[from..]
        .windows(needle.len())
        .position(|window| window == needle)
        .map_or(bytes.len(), |offset| from + offset)
}

#[cfg(test)]
mod tests {
    use super::*;

    const COLLECT: &str = include_str!("../../samples/collect.ptx");
    const PANICS: &str = include_str!("../../samples/panics.ptx");

    #[test]
    fn entries_and_functions_are_found() {
        let module = Module::parse(COLLECT).unwrap();
        let names: Vec<_> = module.entries.iter().map(|e| e.name.as_str()).collect();
        assert_eq!(names, ["collect", "increment"]);
        assert!(module.functions.is_empty());

        let module = Module::parse(PANICS).unwrap();
        let names: Vec<_> = module.entries.iter().map(|e| e.name.as_str()).collect();
        assert_eq!(names, ["bad"]);
        assert_eq!(module.functions.len(), 5, "{:?}", module.functions);
        assert!(module.functions[0].ends_with("panic_bounds_check"));
    }

    #[test]
    fn statements() {
        let parse = |text| instruction(text).map(|i| (i.opcode, i.operands));
        assert_eq!(parse("\n$L__BB1_2:\n\tret"), Some(("ret", "")));
        assert_eq!(parse(" @!%p1 bra $L1"), Some(("bra", "$L1")));
        assert_eq!(instruction("$L: @!%p1 bra $L1").unwrap().guard, "@!%p1");
        assert_eq!(parse("$L1: $L2: @%p bar.sync 0"), Some(("bar.sync", "0")));
        assert_eq!(
            parse("ld.global.v2.u64 {%rd1, %rd2}, [%rd3]"),
            Some(("ld.global.v2.u64", "{%rd1, %rd2}, [%rd3]"))
        );
        assert_eq!(parse("} call.uni f, ()"), Some(("call.uni", "f, ()")));
        assert_eq!(parse("{ .reg .pred p"), None);
        assert_eq!(parse(".reg .b32 %r<9>"), None);
        assert_eq!(parse("\n$L__BB1_2:\n"), None);
        assert_eq!(parse(" }\n"), None);
    }

    #[test]
    fn inline_assembly_on_one_line() {
        let text = ".visible .entry k(.param .b64 k_param_0)\n{\n\
            // begin inline asm\n{ .reg .pred p; setp.ne.u32 p, %r1, 0; \
            vote.sync.any.pred p, p, -1; }\n// end inline asm\nret;\n}";
        let module = Module::parse(text).unwrap();
        let opcodes: Vec<_> = module
            .instructions(&module.entries[0])
            .map(|i| i.opcode)
            .collect();
        assert_eq!(opcodes, ["setp.ne.u32", "vote.sync.any.pred", "ret"]);
    }

    #[test]
    fn comments_and_strings_hide_nothing_and_move_nothing() {
        let text = "a /* { é */ b // }\nc \"{;\" d";
        let blanked = blank(text);
        assert_eq!(blanked.len(), text.len());
        assert_eq!(
            blanked.split_whitespace().collect::<Vec<_>>(),
            ["a", "b", "c", "d"]
        );
    }

    #[test]
    fn broken_text_is_an_error() {
        assert!(Module::parse(".visible .entry k(\n").is_err());
        assert!(Module::parse(".visible .entry k()\n{ ret;\n").is_err());
        assert!(Module::parse("").unwrap().entries.is_empty());
    }
}
