//! What can be declared: kinds, keys, descriptors and the document. Pure: how anything is made real is not known here.
//!
//! Open [`linux`] for the kinds, one file each.

pub mod linux;
