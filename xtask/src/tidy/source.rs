//! Reading Rust source line by line, as far as the checks need it.
//!
//! Decided here: what counts as code (not comments, not the test module inside a file) and where a `use` leads.
//! It leans on rustfmt, which runs before: a module ends where its closing brace stands alone at its own depth.

/// One line with its number.
pub(super) type Line<'a> = (usize, &'a str);

/// All lines, numbered from 1.
pub(super) fn lines(text: &str) -> impl Iterator<Item = Line<'_>> {
    text.lines().enumerate().map(|(index, line)| (index + 1, line))
}

/// The lines that are compiled into the crate itself: no comments, no test modules.
pub(super) fn code(text: &str) -> Vec<Line<'_>> {
    let tests = test_modules(text);
    let is_code = |(number, line): &Line<'_>| {
        !line.trim_start().starts_with("//") && !tests.iter().any(|span| span.contains(number))
    };
    lines(text).filter(is_code).collect()
}

/// The lines of the test modules inside a file.
pub(super) fn test_code(text: &str) -> Vec<Line<'_>> {
    let tests = test_modules(text);
    lines(text).filter(|(number, _)| tests.iter().any(|span| span.contains(number))).collect()
}

/// First to last line of each `#[cfg(test)] mod … { … }`.
fn test_modules(text: &str) -> Vec<std::ops::RangeInclusive<usize>> {
    let all: Vec<Line<'_>> = lines(text).collect();
    let mut spans = Vec::new();
    for (index, (start, line)) in all.iter().enumerate() {
        if line.trim() != "#[cfg(test)]" {
            continue;
        }
        let mut rest = all[index + 1..].iter().skip_while(|(_, line)| line.trim_start().starts_with("#["));
        let Some((_, head)) = rest.next() else { continue };
        if !(module_name(head).is_some() && head.ends_with('{')) {
            continue;
        }
        let depth = head.len() - head.trim_start().len();
        let closes = |line: &str| line.trim_end().len() == depth + 1 && line.trim() == "}";
        let end = rest.find(|(_, line)| closes(line)).map_or(all.len(), |(number, _)| *number);
        spans.push(*start..=end);
    }
    spans
}

/// The name in `mod name;` or `pub(crate) mod name {`.
pub(super) fn module_name(line: &str) -> Option<&str> {
    let mut line = line.trim_start();
    if let Some(rest) = line.strip_prefix("pub") {
        line = rest
            .strip_prefix('(')
            .and_then(|rest| rest.split_once(')'))
            .map_or(rest, |(_, rest)| rest)
            .trim_start();
    }
    let name = line.strip_prefix("mod ")?.trim_end_matches([' ', '{', ';', '}']);
    name.chars().all(is_word).then_some(name)
}

/// Every path that a `use` in these lines leads to, with braces taken apart, at the line where the `use` begins.
pub(super) fn used_paths(code: &[Line<'_>]) -> Vec<(usize, String)> {
    let mut paths = Vec::new();
    let mut lines = code.iter();
    while let Some((number, line)) = lines.next() {
        let start = line.trim_start();
        let Some(index) = find_word(start, "use ").filter(|index| *index == 0 || start.starts_with("pub"))
        else {
            continue;
        };
        let mut tree = start[index + 4..].to_owned();
        while !tree.contains(';') {
            let Some((_, more)) = lines.next() else { break };
            tree.push_str(more.trim());
        }
        let tree = tree.split(';').next().unwrap_or_default();
        unfold("", tree, &mut |path| paths.push((*number, path)));
    }
    paths
}

/// Calls `each` with every path of a `use` tree: `a::{b, c::{d, e}}` is `a::b`, `a::c::d`, `a::c::e`.
fn unfold(prefix: &str, tree: &str, each: &mut impl FnMut(String)) {
    let tree = tree.trim();
    let Some((head, rest)) = tree.split_once('{') else {
        let path = tree.split(" as ").next().unwrap_or(tree).trim();
        each(format!("{prefix}{}", path.trim_start_matches("::")));
        return;
    };
    let prefix = format!("{prefix}{}", head.trim().trim_start_matches("::"));
    let (mut depth, mut start) = (0, 0);
    for (index, character) in rest.char_indices() {
        match character {
            '{' => depth += 1,
            ',' | '}' if depth == 0 => {
                if !rest[start..index].trim().is_empty() {
                    unfold(&prefix, &rest[start..index], each);
                }
                start = index + 1;
            }
            '}' => depth -= 1,
            _ => {}
        }
    }
}

/// Where a needle stands in a line as a word of its own: `std::net`, not `my_std::net` nor `std::network`.
pub(super) fn find_word(line: &str, needle: &str) -> Option<usize> {
    line.match_indices(needle).map(|(index, _)| index).find(|index| {
        let starts_inside = needle.starts_with(is_word) && line[..*index].ends_with(is_word);
        let ends_inside = needle.ends_with(is_word) && line[index + needle.len()..].starts_with(is_word);
        !starts_inside && !ends_inside
    })
}

fn is_word(character: char) -> bool {
    character.is_alphanumeric() || character == '_'
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = "//! Doc.\n\
        use a::b;\n\
        #[cfg(test)]\n\
        mod elsewhere;\n\
        fn f() {}\n\
        #[cfg(test)]\n\
        #[allow(x)]\n\
        mod tests {\n\
        \x20   fn t() {\n\
        \x20   }\n\
        }\n\
        fn after() {}\n";

    #[test]
    fn code_leaves_out_comments_and_test_modules() {
        let numbers: Vec<_> = code(FILE).iter().map(|(number, _)| *number).collect();
        assert_eq!(numbers, [2, 3, 4, 5, 12]);
        let numbers: Vec<_> = test_code(FILE).iter().map(|(number, _)| *number).collect();
        assert_eq!(numbers, [6, 7, 8, 9, 10, 11]);
    }

    #[test]
    fn a_use_is_taken_apart() {
        let text = "pub(crate) use ::std::{\n    collections::BTreeMap,\n    time::{Duration, Instant as Now},\n};\n\
            fn f() {}\nuse a::b::*;\n";
        let paths = used_paths(&lines(text).collect::<Vec<_>>());
        let expected = [
            (1, "std::collections::BTreeMap"),
            (1, "std::time::Duration"),
            (1, "std::time::Instant"),
            (6, "a::b::*"),
        ];
        assert_eq!(paths, expected.map(|(line, path)| (line, path.to_owned())));
    }

    #[test]
    fn a_word_is_found_whole_only() {
        assert_eq!(find_word("x = std::net::a", "std::net"), Some(4));
        assert_eq!(find_word("my_std::net", "std::net"), None);
        assert_eq!(find_word("std::network std::net", "std::net"), Some(13));
    }

    #[test]
    fn modules_are_named() {
        assert_eq!(module_name("    pub(super) mod walk {"), Some("walk"));
        assert_eq!(module_name("pub mod key;"), Some("key"));
        assert_eq!(module_name("mod tests {}"), Some("tests"));
        assert_eq!(module_name("model.mod x"), None);
    }
}
