//! Prints which kind of map runs which operation, as the table of the guide.
//!
//! `cargo run -p gpumap --example operations`

fn main() {
    let table = gpumap::op::table();
    let Some((_, first)) = table.first() else {
        return;
    };
    let receivers: Vec<String> = first.iter().map(|(name, _)| format!("`{name}`")).collect();
    println!("| | {} |", receivers.join(" | "));
    println!("|---{}|", "|---".repeat(receivers.len()));
    for (operation, cells) in &table {
        let cells: Vec<&str> = cells.iter().map(|&(_, cell)| cell).collect();
        println!("| `{operation}` | {} |", cells.join(" | "));
    }
}
