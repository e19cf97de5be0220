//! Making a failing history short.

use super::{Command, run};

/// The shortest failing list found from which nothing can be left out.
pub fn shrink(commands: Vec<Command>) -> Vec<Command> {
    shrink_while(commands, |commands| run(commands).is_err())
}

/// The shortest list found from which nothing can be left out without an end of the failure: chunks first, then single
/// commands, then attributes.
pub fn shrink_while(commands: Vec<Command>, fails: impl Fn(&[Command]) -> bool) -> Vec<Command> {
    simplify(shorten(commands, &fails), &fails)
}

/// The shortest list found from which nothing can be left out without an end of the failure: chunks first, then single
/// things.
pub fn shorten<T: Clone>(list: Vec<T>, fails: impl Fn(&[T]) -> bool) -> Vec<T> {
    let mut best = list;
    let mut chunk = best.len() / 2;
    while chunk > 0 {
        let mut at = 0;
        while at < best.len() {
            let mut shorter = best.clone();
            shorter.drain(at..(at + chunk).min(best.len()));
            if fails(&shorter) {
                best = shorter;
            } else {
                at += chunk;
            }
        }
        chunk /= 2;
    }
    best
}

fn simplify(mut best: Vec<Command>, fails: &impl Fn(&[Command]) -> bool) -> Vec<Command> {
    for at in 0..best.len() {
        let Command::Put(key, attrs) = best[at].clone() else { continue };
        let names: Vec<(String, String)> =
            attrs.iter().map(|(name, text)| (name.to_owned(), text.to_owned())).collect();
        for left_out in names {
            let Command::Put(_, attrs) = &best[at] else { continue };
            let mut rest = attrs.clone();
            rest = rest
                .iter()
                .filter(|(name, text)| (*name, *text) != (left_out.0.as_str(), left_out.1.as_str()))
                .collect();
            let mut simpler = best.clone();
            simpler[at] = Command::Put(key.clone(), rest);
            if fails(&simpler) {
                best = simpler;
            }
        }
    }
    best
}
