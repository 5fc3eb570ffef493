//! Where functions are in a text that is formatted: found by its indentation, so in macros as well.

use std::ops::Range;

/// The functions of this name, of Rust or of Python.
pub fn functions(text: &str, name: &str) -> Vec<Range<usize>> {
    let lines: Vec<_> = text
        .split_inclusive('\n')
        .scan(0, |end, line| {
            let start = *end;
            *end += line.len();
            Some((start, line))
        })
        .collect();
    let is_head = |line: &str| {
        let line = line.trim_start();
        !line.starts_with("//")
            && ["fn ", "def "].iter().any(|word| {
                let behind = line
                    .split_once(word)
                    .filter(|(before, _)| is_before(before));
                behind
                    .and_then(|(_, behind)| behind.strip_prefix(name))
                    .is_some_and(|rest| rest.starts_with(['(', '<']))
            })
    };
    let heads = (0..lines.len()).filter(|&i| is_head(lines[i].1));
    heads
        .map(|head| {
            let end = end(&lines[head..]).map_or(text.len(), |(start, line)| start + line.len());
            lines[head].0..end
        })
        .collect()
}

/// Whether a head may have this before its word: visibility, `const`, or the static of a kernel.
fn is_before(before: &str) -> bool {
    before.is_empty() || before.ends_with(' ') && !before.contains(['"', '{', ';'])
}

/// The last line of the function that begins with these lines.
fn end<'a>(lines: &[(usize, &'a str)]) -> Option<(usize, &'a str)> {
    let &[head, ref rest @ ..] = lines else {
        return None;
    };
    let indent = |line: &str| line.len() - line.trim_start().len();
    let own = indent(head.1);
    let is_on_one_line = head.1.trim_end().ends_with([';', '}']);
    if is_on_one_line {
        return Some(head);
    }
    let is_python = head.1.trim_start().starts_with("def ");
    if is_python {
        let is_behind = |line: &str| {
            !line.trim().is_empty() && indent(line) <= own && !line.trim_start().starts_with(')')
        };
        let behind = rest.iter().position(|(_, line)| is_behind(line))?;
        return lines.get(behind).copied();
    }
    let is_last = |line: &str| {
        indent(line) == own
            && (line.trim_start().starts_with('}') || line.trim_end().ends_with(';'))
    };
    rest.iter().find(|(_, line)| is_last(line)).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found<'t>(text: &'t str, name: &str) -> Vec<&'t str> {
        functions(text, name)
            .into_iter()
            .map(|it| &text[it])
            .collect()
    }

    #[test]
    fn functions_of_rust() {
        let text = "\
// fn f() is not here
pub fn f(a: u32) -> u32 {
    let text = {
        \"fn f(\"
    };
    a
}

impl A {
    pub(crate) const fn f<T>(
        self,
    ) -> T
    where
        T: B,
    {
        c
    }

    fn g(&self) -> u32 { 1 }
    fn ff() {
    }
    fn h(&self);
}

kernel! {
    pub static F = fn f(args: Args) {
        d
    }
}
";
        let f = found(text, "f");
        assert_eq!(f.len(), 3, "{f:?}");
        assert!(f[0].starts_with("pub fn f(a") && f[0].ends_with("    a\n}\n"));
        assert!(f[1].contains("where") && f[1].ends_with("        c\n    }\n"));
        assert!(f[2].ends_with("        d\n    }\n"));
        assert_eq!(found(text, "g"), ["    fn g(&self) -> u32 { 1 }\n"]);
        assert_eq!(found(text, "h"), ["    fn h(&self);\n"]);
        assert!(found(text, "i").is_empty());
    }

    #[test]
    fn functions_of_python() {
        let text = "class A:\n    def f(\n        self,\n    ):\n        a\n\n        b\n\n    def g(self):\n        c\n";
        assert!(found(text, "f")[0].trim_end().ends_with('b'));
        assert!(found(text, "g")[0].ends_with("c\n"));
    }
}
