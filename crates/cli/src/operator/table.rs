//! Tables for people: columns as wide as what is in them.

/// Between two columns.
const GAP: &str = "  ";

/// A table under its headings.
pub struct Table {
    rows: Vec<Vec<String>>,
}

impl Table {
    /// One with these columns.
    pub fn new(headings: &[&str]) -> Self {
        Self {
            rows: vec![headings.iter().map(ToString::to_string).collect()],
        }
    }

    /// Adds a row, a cell for each column.
    pub fn row(&mut self, cells: impl IntoIterator<Item = String>) {
        let cells: Vec<String> = cells.into_iter().collect();
        assert!(cells.len() == self.rows[0].len(), "a cell for each column");
        self.rows.push(cells);
    }

    /// The table as lines.
    pub fn lines(&self) -> String {
        let width = |column: usize| {
            let cells = self.rows.iter().map(|row| row[column].chars().count());
            cells.max().unwrap_or(0)
        };
        let widths: Vec<usize> = (0..self.rows[0].len()).map(width).collect();
        let line = |row: &Vec<String>| {
            let cells = row.iter().zip(&widths);
            let cells = cells.map(|(cell, width)| format!("{cell:<width$}"));
            let line = cells.collect::<Vec<_>>().join(GAP);
            line.trim_end().to_owned() + "\n"
        };
        self.rows.iter().map(line).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::Table;

    #[test]
    fn columns_stand_under_their_headings() {
        let mut table = Table::new(&["NODE", "ZONE", "STATE"]);
        table.row(["00000000000000a1", "", "active"].map(str::to_owned));
        table.row(["b", "zürich", "cordoned"].map(str::to_owned));
        let lines = "\
NODE              ZONE    STATE
00000000000000a1          active
b                 zürich  cordoned
";
        assert_eq!(table.lines(), lines);
    }
}
