//! Prints which kind of map runs which operation, and which are queued on streams, as the tables of the guide.
//!
//! `cargo run -p gpumap --example operations`

use gpumap::op::{self, Table};

fn main() {
    print(&op::table());
    println!("\nOn a stream, `map.on(&stream)`:\n");
    print(&op::streams());
}

fn print(table: &Table) {
    let Some((_, first)) = table.first() else {
        return;
    };
    let receivers: Vec<String> = first.iter().map(|(name, _)| format!("`{name}`")).collect();
    println!("| | {} |", receivers.join(" | "));
    println!("|---{}|", "|---".repeat(receivers.len()));
    for (operation, cells) in table {
        let cells: Vec<&str> = cells.iter().map(|&(_, cell)| cell).collect();
        println!("| `{operation}` | {} |", cells.join(" | "));
    }
}
