//! The guide's lists match the code.

/// The variants of `Error`, as its source has them.
fn variants() -> Vec<&'static str> {
    let source = include_str!("../src/error/mod.rs");
    let (_, body) = source.split_once("pub enum Error {\n").unwrap();
    let (body, _) = body.split_once("\n}\n").unwrap();
    let line = |line: &'static str| line.strip_prefix("    ");
    let lines = body.lines().filter_map(line);
    let names = lines.filter(|line| line.starts_with(|first: char| first.is_ascii_uppercase()));
    names
        .map(|line| line.split([' ', ',', '(']).next().unwrap())
        .collect()
}

#[test]
fn the_guide_has_every_error() {
    let guide = include_str!("../../../docs/guide/src/getting-started.md");
    let rows = guide.lines().filter(|line| line.starts_with("| `"));
    let table: String = rows.collect();
    let variants = variants();
    assert!(variants.contains(&"NoDriver") && variants.contains(&"Kernel"));
    for variant in variants {
        assert!(table.contains(&format!("`{variant}`")), "{variant}");
    }
}
