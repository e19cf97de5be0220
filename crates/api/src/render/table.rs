//! Tables: columns as wide as they must be, the last one wrapped to the width of the terminal.

use anstyle::Style;

use super::paint;

/// The width below which nothing is wrapped: it would be a column of letters.
const NARROWEST: usize = 16;

/// A cell: its text, and its colour.
#[derive(Clone, Debug, Default)]
pub struct Cell {
    text: String,
    style: Style,
}

impl<T: Into<String>> From<T> for Cell {
    fn from(text: T) -> Self {
        Self { text: text.into(), style: Style::new() }
    }
}

impl Cell {
    /// A text in a colour.
    pub fn painted(style: Style, text: impl Into<String>) -> Self {
        Self { text: text.into(), style }
    }

    fn width(&self) -> usize {
        self.text.chars().count()
    }
}

/// Rows under their headings. A width is that of the terminal; `None` wraps nothing.
pub fn table(headings: &[&str], rows: Vec<Vec<Cell>>, width: Option<usize>) -> String {
    let headings: Vec<Cell> = headings.iter().map(|heading| Cell::from(*heading)).collect();
    let mut widths: Vec<usize> = headings.iter().map(Cell::width).collect();
    for row in &rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(cell.width());
        }
    }
    let last = widths.len().saturating_sub(1);
    let before: usize = widths.iter().take(last).map(|width| width + 2).sum();
    let room = width.and_then(|width| width.checked_sub(before)).filter(|room| *room >= NARROWEST);
    let mut text = String::new();
    for row in std::iter::once(headings).chain(rows) {
        line(&mut text, &row, &widths, before, room);
    }
    text
}

fn line(text: &mut String, row: &[Cell], widths: &[usize], before: usize, room: Option<usize>) {
    let Some((last, first)) = row.split_last() else { return };
    let mut start = String::new();
    for (cell, width) in first.iter().zip(widths) {
        let gap = " ".repeat(width + 2 - cell.width());
        start.push_str(&format!("{}{gap}", shown(cell, &cell.text)));
    }
    let pieces = room.map_or_else(|| vec![last.text.clone()], |room| wrap(&last.text, room));
    for (at, piece) in pieces.iter().enumerate() {
        let start = if at == 0 { start.clone() } else { " ".repeat(before) };
        let piece = shown(last, piece);
        text.push_str(format!("{start}{piece}").trim_end());
        text.push('\n');
    }
}

fn shown(cell: &Cell, text: &str) -> String {
    if cell.style == Style::new() { text.to_owned() } else { paint(cell.style, text) }
}

/// A text in pieces that fit, broken between words where there are any.
pub fn wrap(text: &str, room: usize) -> Vec<String> {
    let mut pieces = vec![String::new()];
    for word in text.split(' ') {
        let mut word: Vec<char> = word.chars().collect();
        let used = pieces.last().map_or(0, |piece| piece.chars().count());
        if used > 0 && used + 1 + word.len() > room {
            pieces.push(String::new());
        }
        while word.len() > room {
            let rest = word.split_off(room);
            let full: String = word.into_iter().collect();
            match pieces.last_mut() {
                Some(piece) if piece.is_empty() => *piece = full,
                _ => pieces.push(full),
            }
            pieces.push(String::new());
            word = rest;
        }
        if let Some(piece) = pieces.last_mut() {
            if !piece.is_empty() {
                piece.push(' ');
            }
            piece.extend(word);
        }
    }
    pieces
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_column_is_wrapped_and_the_others_are_not() {
        let rows = vec![vec!["link/a".into(), "create failed: no such device".into()]];
        let shown = table(&["ITEM", "WHY"], rows.clone(), Some(26));
        assert_eq!(shown, "ITEM    WHY\nlink/a  create failed: no\n        such device\n");
        let shown = table(&["ITEM", "WHY"], rows, None);
        assert_eq!(shown, "ITEM    WHY\nlink/a  create failed: no such device\n");
    }

    #[test]
    fn a_word_without_room_is_broken() {
        assert_eq!(wrap("aaaaaaaa bb", 3), ["aaa", "aaa", "aa", "bb"]);
        assert_eq!(wrap("a b c", 80), ["a b c"]);
        assert_eq!(wrap("", 3), [""]);
    }
}
