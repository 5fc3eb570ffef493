//! The attribute `#[kernel]` of `gpumap-cuda-std`, which documents it and has the other half, the macro `__kernel!`.
//!
//! It keeps the function as it is, and says of each parameter what the entry point takes and what the function is called with.
//! It is made of tokens alone: what other attributes are made with takes longer to compile than all of that crate.

use proc_macro::{Delimiter, Group, Ident, Span, TokenStream, TokenTree};

/// Makes an entry point of a function: see `cuda_std`.
#[proc_macro_attribute]
pub fn kernel(_hints: TokenStream, item: TokenStream) -> TokenStream {
    match expand(item.clone()) {
        Ok(entry) => {
            let mut all: TokenStream = parse("#[inline(always)]");
            all.extend(item);
            all.extend(entry);
            all
        }
        Err((at, problem)) => {
            let error = format!("::core::compile_error!({problem:?});");
            let error: TokenStream = parse(&error)
                .into_iter()
                .map(|it| at_span(it, at))
                .collect();
            error.into_iter().chain(item).collect()
        }
    }
}

/// Where, and what is wrong.
type Problem = (Span, &'static str);

/// What stands behind the function.
fn expand(item: TokenStream) -> Result<TokenStream, Problem> {
    let mut tokens = item.into_iter().peekable();
    let mut vis = TokenStream::new();
    let mut is_unsafe = false;
    // Attributes, `pub`, `pub(crate)`, `unsafe`, in the order of the grammar.
    let name = loop {
        let Some(token) = tokens.next() else {
            return Err((Span::call_site(), "a kernel is a function"));
        };
        match (&token, token.to_string().as_str()) {
            (TokenTree::Ident(_), "fn") => match tokens.next() {
                Some(TokenTree::Ident(name)) => break name,
                _ => return Err((token.span(), "a kernel is a function")),
            },
            (TokenTree::Ident(_), "unsafe") => is_unsafe = true,
            (TokenTree::Ident(_), "pub") => vis.extend([token]),
            (TokenTree::Group(group), _) if group.delimiter() == Delimiter::Parenthesis => {
                vis.extend([token]);
            }
            (TokenTree::Punct(_) | TokenTree::Group(_), _) => {}
            _ => return Err((token.span(), "a kernel is an `unsafe fn` and nothing else")),
        }
    };
    if !is_unsafe {
        return Err((name.span(), "kernel functions must be marked as unsafe"));
    }
    let parameters = match tokens.next() {
        Some(TokenTree::Group(group)) if group.delimiter() == Delimiter::Parenthesis => group,
        _ => return Err((name.span(), "a kernel has no generic parameters")),
    };
    match tokens.next() {
        Some(TokenTree::Group(_)) => {}
        _ => return Err((name.span(), "kernel functions should not return anything")),
    }

    let (mut fields, mut call) = (TokenStream::new(), TokenStream::new());
    for parameter in split(parameters.stream()) {
        let (name, ty) = parameter_of(parameter)?;
        let (field, argument) = pass(&name, ty);
        fields.extend(field);
        call.extend(argument);
    }
    let text = name.to_string();
    let text = text.trim_start_matches("r#");
    let (upper, camel) = (text.to_uppercase(), camel(text));
    let named = |text: &str| TokenTree::from(Ident::new(text, name.span()));
    let mut inside: TokenStream = vis;
    inside.extend([
        named(text),
        named(&upper),
        named(&format!("{camel}Args")),
        named(&format!("gpumap_{text}")),
        Group::new(Delimiter::Parenthesis, fields).into(),
        Group::new(Delimiter::Parenthesis, call).into(),
    ]);
    let mut entry = parse("::cuda_std::__kernel!");
    entry.extend([TokenTree::from(Group::new(Delimiter::Brace, inside))]);
    Ok(entry)
}

/// Tokens between the commas that stand in no angle brackets.
fn split(tokens: TokenStream) -> Vec<Vec<TokenTree>> {
    let mut all = vec![Vec::new()];
    let (mut depth, mut dash) = (0, false);
    for token in tokens {
        let of_arrow = std::mem::take(&mut dash);
        if let TokenTree::Punct(punct) = &token {
            match punct.as_char() {
                '<' => depth += 1,
                '>' if !of_arrow => depth -= 1,
                '-' => dash = true,
                ',' if depth == 0 => {
                    all.push(Vec::new());
                    continue;
                }
                _ => {}
            }
        }
        all.last_mut().expect("one at least").push(token);
    }
    all.retain(|one| !one.is_empty());
    all
}

/// The name of a parameter and its type.
fn parameter_of(tokens: Vec<TokenTree>) -> Result<(Ident, Vec<TokenTree>), Problem> {
    let at = tokens[0].span();
    let mut tokens = tokens.into_iter();
    let mut name = tokens.next();
    if name.as_ref().is_some_and(|it| it.to_string() == "mut") {
        name = tokens.next();
    }
    match (name, tokens.next()) {
        (Some(TokenTree::Ident(name)), Some(TokenTree::Punct(colon))) if colon.as_char() == ':' => {
            Ok((name, tokens.collect()))
        }
        _ => Err((at, "a parameter of a kernel is `name: type`")),
    }
}

/// What the entry point takes for a parameter, and what the function gets.
fn pass(name: &Ident, ty: Vec<TokenTree>) -> (TokenStream, TokenStream) {
    let is = |i: usize, text: &str| ty.get(i).is_some_and(|token| token.to_string() == text);
    if !is(0, "&") {
        let ty: TokenStream = ty.iter().cloned().collect();
        return (parse(&format!("{name}: {ty},")), parse(&format!("{name},")));
    }
    let lifetime = if is(1, "'") { 2 } else { 0 };
    let mutable = is(1 + lifetime, "mut");
    let behind = &ty[1 + lifetime + usize::from(mutable)..];
    let pointer = if mutable { "mut" } else { "const" };
    match behind {
        [TokenTree::Group(group)]
            if group.delimiter() == Delimiter::Bracket && split_off(group).is_none() =>
        {
            let (element, suffix) = (group.stream(), if mutable { "_mut" } else { "" });
            (
                parse(&format!("{name}: *{pointer} {element}, {name}_len: usize,")),
                parse(&format!(
                    "::core::slice::from_raw_parts{suffix}({name}, {name}_len),"
                )),
            )
        }
        _ => {
            let target: TokenStream = behind.iter().cloned().collect();
            let reference = if mutable { "&mut " } else { "&" };
            (
                parse(&format!("{name}: *{pointer} {target},")),
                parse(&format!("{reference}*{name},")),
            )
        }
    }
}

/// The semicolon of an array's type.
fn split_off(group: &Group) -> Option<TokenTree> {
    let mut tokens = group.stream().into_iter();
    tokens.find(|token| token.to_string() == ";")
}

/// `block_sum` as `BlockSum`.
fn camel(text: &str) -> String {
    let words = text.split('_').map(|word| {
        let mut letters = word.chars();
        letters.next().map_or_else(String::new, |first| {
            first.to_uppercase().chain(letters).collect()
        })
    });
    words.collect()
}

fn parse(text: &str) -> TokenStream {
    text.parse().expect("tokens of this macro")
}

fn at_span(mut token: TokenTree, span: Span) -> TokenTree {
    token.set_span(span);
    token
}
