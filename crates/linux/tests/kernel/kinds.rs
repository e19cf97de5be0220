//! Every kind: made, read back, changed by the requests it needs, adopted, removed.
