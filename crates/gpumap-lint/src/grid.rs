//! Plain text tables for the terminal.

use std::fmt;

/// Rows of cells; the first row is the heading. Cells that are numbers are set flush right.
#[derive(Debug, Default)]
pub struct Grid {
    rows: Vec<Vec<String>>,
}

impl Grid {
    /// A table of this heading.
    pub fn new<S: Into<String>>(heading: impl IntoIterator<Item = S>) -> Self {
        let mut grid = Grid::default();
        grid.row(heading);
        grid
    }

    /// Adds a row.
    pub fn row<S: Into<String>>(&mut self, cells: impl IntoIterator<Item = S>) {
        self.rows.push(cells.into_iter().map(Into::into).collect());
    }
}

impl fmt::Display for Grid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let columns = self.rows.iter().map(Vec::len).max().unwrap_or(0);
        let cell = |row: usize, column: usize| {
            let text = self.rows[row].get(column);
            text.map_or("", String::as_str)
        };
        let rows = 0..self.rows.len();
        let widths: Vec<usize> = (0..columns)
            .map(|c| rows.clone().map(|r| cell(r, c).chars().count()).max())
            .map(Option::unwrap_or_default)
            .collect();
        let right: Vec<bool> = (0..columns)
            .map(|c| rows.clone().skip(1).all(|r| is_number(cell(r, c))))
            .collect();
        for row in rows {
            let mut line = String::new();
            for (column, &width) in widths.iter().enumerate() {
                let text = cell(row, column);
                line += &if right[column] {
                    format!("{text:>width$}  ")
                } else {
                    format!("{text:<width$}  ")
                };
            }
            writeln!(f, "{}", line.trim_end())?;
        }
        Ok(())
    }
}

fn is_number(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_digit()) || text == "-"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_line_up() {
        let mut grid = Grid::new(["kernel", "registers"]);
        grid.row(["insert", "8"]);
        grid.row(["retrieve_all", "32"]);
        assert_eq!(
            grid.to_string(),
            "kernel        registers\ninsert                8\nretrieve_all         32\n"
        );
    }
}
