//! The program as a person runs it: what it prints, how it ends, and what it does to a network.

mod lab;
mod outcomes;
mod program;
mod words;
